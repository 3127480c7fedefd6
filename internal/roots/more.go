package roots

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Missing reports whether nothing is there. A link that leads out of the root is
// an error.
func (p Place) Missing() (missing bool, err error) {
	err = p.in(func(root *os.Root) error {
		_, err := root.Stat(p.Name)
		if missing = errors.Is(err, fs.ErrNotExist); missing {
			return nil
		}
		return err
	})
	return missing, err
}

// MakeFolders makes the folders in front of a file that are missing.
func (p Place) MakeFolders() error {
	return p.in(func(root *os.Root) error {
		return root.MkdirAll(filepath.Dir(p.Name), 0o755)
	})
}

// Append adds to the end of a file, which it makes if there is none. If the
// process dies, a part of it may be there.
func (p Place) Append(data []byte, mode fs.FileMode) error {
	return p.in(func(root *os.Root) error {
		if err := regular(root.Stat(p.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return write(root, p.Name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, data, mode)
	})
}

// Remove deletes a file, or a symbolic link itself. A folder is refused.
func (p Place) Remove() error {
	return p.in(func(root *os.Root) error {
		info, err := root.Lstat(p.Name)
		switch {
		case err != nil:
			return err
		case info.IsDir():
			return errors.New("it is a folder, and only files are deleted")
		}
		return root.Remove(p.Name)
	})
}

// List gives what is in a folder, by name: at most so many entries, and whether
// there are more. A link is listed as one.
func (p Place) List(most int) (entries []fs.FileInfo, more bool, err error) {
	err = p.in(func(root *os.Root) error {
		info, err := root.Stat(p.Name)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return errors.New("it is no folder")
		}
		folder, err := root.Open(p.Name)
		if err != nil {
			return err
		}
		defer func() { _ = folder.Close() }() // it was only read
		found, err := folder.ReadDir(most + 1)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if more = len(found) > most; more {
			found = found[:most]
		}
		for _, entry := range found {
			info, err := entry.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue // gone since
			}
			if err != nil {
				return err
			}
			entries = append(entries, info)
		}
		slices.SortFunc(entries, func(a, b fs.FileInfo) int { return strings.Compare(a.Name(), b.Name()) })
		return nil
	})
	return entries, more, err
}

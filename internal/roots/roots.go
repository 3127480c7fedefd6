// Package roots keeps files inside the folders that a thread may touch: its
// working folder and the further roots of its session.
//
// Rules:
//
//   - A path is absolute and has no "..": what a person reads is where it goes.
//   - No symbolic link leads out of a root. Every access goes through os.Root,
//     which the kernel holds to that, also while somebody changes the folders.
//     It takes an absolute link for one that leads out, wherever it points.
//   - Only regular files are read and written: a pipe would wait for ever.
package roots

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ErrOutside says that a path is in none of the roots.
var ErrOutside = errors.New("outside of the folders of the thread")

// ErrTooLarge says that a file is larger than the reader wants.
var ErrTooLarge = errors.New("the file is too large")

// Place is a path inside a root.
type Place struct {
	Root string // as it was given, cleaned
	Name string // relative to it; "." is the root itself
}

// Locate finds the root that a path is in, the innermost of several. It does not
// look at the disk: a symbolic link that leads out is found by what is done with
// the place, or by Check.
func Locate(roots []string, path string) (Place, error) {
	switch {
	case !filepath.IsAbs(path):
		return Place{}, fmt.Errorf("path %q is not absolute", path)
	case strings.ContainsRune(path, 0):
		return Place{}, fmt.Errorf("path %q has a zero byte", path)
	case slices.Contains(strings.FieldsFunc(path, isSeparator), ".."):
		return Place{}, fmt.Errorf(`path %q has "..": write where it goes`, path)
	}
	path = filepath.Clean(path)
	best := Place{}
	for _, root := range roots {
		if !filepath.IsAbs(root) {
			continue
		}
		root = filepath.Clean(root)
		name, err := filepath.Rel(root, path)
		if err == nil && filepath.IsLocal(name) && len(root) > len(best.Root) {
			best = Place{Root: root, Name: name}
		}
	}
	if best.Root == "" {
		return Place{}, fmt.Errorf("path %s: %w (%s)", path, ErrOutside, strings.Join(roots, ", "))
	}
	return best, nil
}

func isSeparator(r rune) bool { return r == '/' || r == filepath.Separator }

// Path is the whole path.
func (p Place) Path() string { return filepath.Join(p.Root, p.Name) }

// Check says whether the place is inside its root, symbolic links included. That
// nothing is there yet is fine. It is for a file that somebody else opens.
func (p Place) Check() error {
	err := p.in(func(root *os.Root) error {
		_, err := root.Stat(p.Name)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Open opens a regular file for reading.
func (p Place) Open() (f *os.File, err error) {
	err = p.in(func(root *os.Root) error {
		if err := regular(root.Stat(p.Name)); err != nil {
			return err
		}
		f, err = root.Open(p.Name)
		return err
	})
	return f, err
}

// ReadFile reads a file of at most so many bytes. ErrTooLarge if it has more.
func (p Place) ReadFile(most int64) ([]byte, error) {
	f, err := p.Open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("read %s: %w: more than %d bytes", p.Path(), ErrTooLarge, most)
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

// WriteFile puts a whole file there: either all of it or, if it fails, what was
// there before. A new file gets the mode; an old one keeps its own. A symbolic
// link stays, and the file behind it is replaced. The folder must be there.
func (p Place) WriteFile(data []byte, mode fs.FileMode) error {
	return p.in(func(root *os.Root) error {
		name := p.Name
		for range maxLinks {
			info, err := root.Lstat(name)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return replace(root, name, data, mode)
			case err != nil:
				return err
			case info.Mode()&fs.ModeSymlink != 0:
				to, err := root.Readlink(name)
				if err != nil {
					return err
				}
				if !filepath.IsAbs(to) {
					// Not cleaned: ".." leads out of what a folder's link means,
					// and not of what its name says.
					folder, _ := filepath.Split(name)
					to = folder + to
				}
				name = to // the root refuses one that leads out
				continue
			}
			if err := regular(info, nil); err != nil {
				return err
			}
			return replace(root, name, data, info.Mode().Perm())
		}
		return errors.New("too many symbolic links")
	})
}

// maxLinks is how many symbolic links a name may lead through.
const maxLinks = 40

// replace writes a file beside the one that is wanted, and puts it in its place.
// If the process dies here, a file with a name of its own is left over.
func replace(root *os.Root, name string, data []byte, mode fs.FileMode) error {
	folder, base := filepath.Split(name)
	aside := folder + "." + base + "." + rand.Text()
	if err := write(root, aside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, data, mode); err != nil {
		return errors.Join(err, gone(root.Remove(aside)))
	}
	if err := root.Rename(aside, name); err != nil {
		return errors.Join(err, gone(root.Remove(aside)))
	}
	return nil
}

func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func write(root *os.Root, name string, flags int, data []byte, mode fs.FileMode) error {
	f, err := root.OpenFile(name, flags, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func regular(info fs.FileInfo, err error) error {
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("it is a folder")
	case !info.Mode().IsRegular():
		return errors.New("it is no regular file")
	}
	return nil
}

// in does something in the place's root, and says where in an error.
func (p Place) in(do func(*os.Root) error) error {
	root, err := os.OpenRoot(p.Root)
	if err == nil {
		err = do(root)
		_ = root.Close() // nothing of it is pending
	}
	if err == nil {
		return nil
	}
	if inner := new(fs.PathError); errors.As(err, &inner) {
		err = inner.Err // its path is relative to the root
	}
	return fmt.Errorf("%s: %w", p.Path(), err)
}

package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/holdfast-agent/holdfast/internal/clock"
)

const (
	lowDisk     = 256 << 20       // bytes; a commit that finds no room fails
	largeUnused = 64 << 20        // bytes in a file that nothing is in
	largeSkew   = 5 * time.Minute // more than clocks of machines differ by
)

// surroundings looks at what is around the file: modes, the log beside it, the
// disk.
func (d *doctor) surroundings(info fs.FileInfo) {
	if runtime.GOOS != "windows" {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			path := d.h.Path + suffix
			if suffix != "" {
				var err error
				if info, err = os.Stat(path); err != nil {
					continue
				}
			}
			if mode := info.Mode().Perm(); mode&0o077 != 0 {
				d.h.add(severityWarning, fmt.Sprintf("other users may read or write %s (mode %04o)", path, mode), "chmod 600 "+path)
			}
		}
		dir := filepath.Dir(d.h.Path)
		if folder, err := os.Stat(dir); err == nil && folder.Mode().Perm()&0o022 != 0 && folder.Mode()&fs.ModeSticky == 0 {
			d.h.add(severityWarning, fmt.Sprintf("other users may replace files in %s (mode %04o)", dir, folder.Mode().Perm()), "chmod go-w "+dir)
		}
	}
	if d.h.WAL > largeWAL {
		d.h.add(severityWarning, fmt.Sprintf("the write-ahead log has %d MiB", d.h.WAL>>20),
			"a process keeps an old reading transaction open; end it, and the log shrinks at the next commits")
	}
	if free, ok := freeDisk(filepath.Dir(d.h.Path)); ok {
		d.h.disk(free)
	}
}

func (h *Health) disk(free int64) {
	h.Free = free
	if free < lowDisk {
		h.add(severityWarning, fmt.Sprintf("%d MiB are free on the disk", free>>20), "make room: a commit that finds none fails, and the turn stands until there is")
	}
}

// pages looks at how much of the file is in use.
func (d *doctor) pages(ctx context.Context) error {
	err := d.db.GetContext(ctx, &d.h.Unused, `SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size`)
	if err == nil && d.h.Unused > largeUnused && d.h.Unused > d.h.Size/2 {
		d.h.add(severityWarning, fmt.Sprintf("%d MiB of the file are not in use", d.h.Unused>>20),
			"nothing to do: they are used for what comes; agent backup makes a copy without them")
	}
	return err
}

// times looks whether the clock went back since the newest entry was made.
func (d *doctor) times(ctx context.Context) error {
	var newest int64
	err := d.db.GetContext(ctx, &newest, `SELECT at FROM checkpoints ORDER BY id DESC LIMIT 1`)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if ahead := fromMS(newest).Sub(clock.Real.Now()); ahead > largeSkew {
		d.h.add(severityWarning, fmt.Sprintf("the newest entry is of %s, which is %v ahead of this machine's clock", fromMS(newest).Format(time.RFC3339), ahead.Round(time.Minute)),
			"set the clock: the order of a log does not depend on it, but deadlines, timers and --max-age do")
	}
	return nil
}

// orphans looks for rows that nobody will ever need, which verify does not call
// wrong.
func (d *doctor) orphans(ctx context.Context) error {
	for _, look := range []struct{ what, query string }{
		{"signals belong to a turn that is over", `SELECT count(*) FROM signals JOIN threads USING (no) WHERE threads.status NOT IN ('running', 'paused', 'sleeping')`},
		{"results belong to a thread that was deleted", `SELECT count(*) FROM results JOIN threads USING (no) WHERE threads.status = 'deleted'`},
		{"snapshots belong to a thread that was deleted", `SELECT count(*) FROM snapshots JOIN threads USING (no) WHERE threads.status = 'deleted'`},
		{"questions belong to a thread that was deleted", `SELECT count(*) FROM interrupts JOIN threads USING (no) WHERE threads.status = 'deleted'`},
		{"entries belong to a thread that was deleted", `SELECT count(*) FROM checkpoints JOIN threads USING (no) WHERE threads.status = 'deleted'`},
	} {
		var n int64
		if err := d.db.GetContext(ctx, &n, look.query); err != nil {
			return err
		}
		if n > 0 {
			d.h.add(severityWarning, fmt.Sprintf("%d %s", n, look.what), "somebody changed the file by hand; they do no harm, but go back to a backup if nobody knows why")
		}
	}
	return nil
}

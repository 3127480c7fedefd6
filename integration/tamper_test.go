//go:build unix

package integration

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// tampering is a file that somebody changes behind the program's back.
type tampering struct {
	h      *harness
	random *rand.Rand
	n      int
}

// original makes a file with a finished thread that has entries of every kind
// that a turn has, and, among them in the file, a thread with an open question.
func original(t *testing.T) *tampering {
	t.Helper()
	h := newHarness(t)
	gates := h.write("gates.yaml", specs()[2].graph)
	h.run("run", gates, "--thread", "one", "--as", "author").exits(3)
	h.run("run", gates, "--thread", "two").exits(3)
	h.run("answer", "one", "--reject", "--as", "carol", "--reason", "not tested").exits(1)
	h.verify()
	require.NoFileExists(t, h.db+"-wal", "the file is whole when nobody has it open")
	seed := seedOf(t)
	return &tampering{h: h, random: rand.New(rand.NewPCG(seed, seed))}
}

// copied gives a copy of the file, changed by statements, and a harness for it.
func (tm *tampering) copied(statements ...string) *harness {
	tm.h.t.Helper()
	tm.n++
	h := &harness{t: tm.h.t, dir: tm.h.dir, bin: program, db: filepath.Join(tm.h.dir, fmt.Sprintf("copy-%d.db", tm.n))}
	copyFile(h.t, tm.h.db, h.db, 0o600)
	db := open(h.t, h.db)
	for _, s := range statements {
		r, err := db.Exec(s)
		require.NoError(h.t, err, s)
		if strings.HasPrefix(s, "PRAGMA") {
			continue
		}
		n, err := r.RowsAffected()
		require.NoError(h.t, err)
		require.EqualValues(h.t, 1, n, s)
	}
	require.NoError(h.t, db.Close())
	return h
}

func open(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	return db
}

// caught checks that verify finds it and names it first, and gives its words.
func caught(h *harness, what, names string) *result {
	h.t.Helper()
	r := h.run("audit", "verify")
	require.Equal(h.t, 1, r.code, "%s was not found: %v", what, r)
	require.Contains(h.t, r.all(), names, "%s: the row is not named: %v", what, r)
	return r
}

// rows reads a query's rows as texts.
func rows(t *testing.T, path, query string) [][]string {
	t.Helper()
	db := open(t, path)
	defer db.Close()
	found, err := db.Query(query)
	require.NoError(t, err)
	defer found.Close()
	columns, err := found.Columns()
	require.NoError(t, err)
	var out [][]string
	for found.Next() {
		row, to := make([]string, len(columns)), make([]any, len(columns))
		for i := range row {
			to[i] = &row[i]
		}
		require.NoError(t, found.Scan(to...))
		out = append(out, row)
	}
	require.NoError(t, found.Err())
	require.NotEmpty(t, out, query)
	return out
}

// change is an expression of the column with one byte of it changed.
func (tm *tampering) change(column, kind string, length int) string {
	switch {
	case kind == "integer":
		return column + " + 1"
	case kind == "null":
		return map[bool]string{true: "1", false: "'x'"}[column == "deadline" || strings.HasSuffix(column, "_at") || strings.HasSuffix(column, "_seq")]
	case length == 0:
		return "'x'"
	}
	at := tm.random.IntN(length) + 1
	if kind == "text" {
		return fmt.Sprintf("substr(%[1]s, 1, %[2]d - 1) || CASE substr(%[1]s, %[2]d, 1) WHEN 'x' THEN 'y' ELSE 'x' END || substr(%[1]s, %[2]d + 1)", column, at)
	}
	// A blob: its byte is set to one that it does not have there.
	return fmt.Sprintf("CAST(substr(%[1]s, 1, %[2]d - 1) || CASE substr(%[1]s, %[2]d, 1) WHEN x'78' THEN x'79' ELSE x'78' END || substr(%[1]s, %[2]d + 1) AS BLOB)", column, at)
}

// columns of a table, in its own order.
func (tm *tampering) columns(table string) []string {
	tm.h.t.Helper()
	var names []string
	for _, row := range rows(tm.h.t, tm.h.db, `SELECT name FROM pragma_table_info('`+table+`')`) {
		names = append(names, row[0])
	}
	return names
}

const withoutKeys = "PRAGMA foreign_keys = OFF"

func TestAnyChangedByteOfTheLogIsFound(t *testing.T) {
	t.Parallel()
	tm := original(t)
	for _, column := range tm.columns("checkpoints") {
		for _, row := range rows(t, tm.h.db, `SELECT c.id, t.thread_id, c.seq, typeof(c.`+column+`), length(c.`+column+`) FROM checkpoints c JOIN threads t ON t.no = c.no ORDER BY c.id`) {
			id, name, seq, kind, length := row[0], row[1], row[2], row[3], 0
			_, err := fmt.Sscan(row[4], &length)
			require.NoError(t, err)
			change := tm.change(column, kind, length)
			names := name + "@" + seq
			switch column {
			case "id", "no", "seq":
				// The next number may be taken. That row is missing then, or if
				// it was the last of its thread or of the file, the working
				// tables do not fit.
				change = column + " + 1000"
			}
			what := fmt.Sprintf("column %s of %s", column, names)
			h := tm.copied(withoutKeys, `UPDATE checkpoints SET `+column+` = `+change+` WHERE id = `+id)
			last := len(rows(t, tm.h.db, `SELECT 1 FROM checkpoints c JOIN threads t ON t.no = c.no WHERE t.thread_id = '`+name+`' AND c.seq > `+seq+` UNION ALL SELECT 0`)) == 1
			switch {
			case column == "id":
				// A number of the file; it does not say of which thread it is.
				names = "checkpoints, row " + id
				if last {
					names = "checkpoints, row "
				}
			case column == "no" && last:
				names = "thread " + name
			}
			caught(h, what, names)
		}
	}
}

// TestEveryByteOfAPayloadCounts changes each byte of one payload and of its
// hashes, one after the other.
func TestEveryByteOfAPayloadCounts(t *testing.T) {
	t.Parallel()
	tm := original(t)
	for _, column := range []string{"payload", "payload_hash", "hash"} {
		for range 12 {
			length := 0
			row := rows(t, tm.h.db, `SELECT length(`+column+`) FROM checkpoints WHERE id = 3`)[0]
			_, err := fmt.Sscan(row[0], &length)
			require.NoError(t, err)
			h := tm.copied(`UPDATE checkpoints SET ` + column + ` = ` + tm.change(column, "blob", length) + ` WHERE id = 3`)
			caught(h, column, "one@3")
		}
	}
}

func TestARemovedRowIsFound(t *testing.T) {
	t.Parallel()
	tm := original(t)
	all := rows(t, tm.h.db, `SELECT c.id, t.thread_id, c.seq, (SELECT max(seq) FROM checkpoints m WHERE m.no = c.no) FROM checkpoints c JOIN threads t ON t.no = c.no ORDER BY c.id`)
	for _, row := range all {
		id, name, seq, last := row[0], row[1], row[2], row[3]
		names := name + "@" + seq
		if seq == last {
			names = "thread " + name // the log ends too early for the working tables
		}
		caught(tm.copied(withoutKeys, `DELETE FROM checkpoints WHERE id = `+id), "the removal of "+name+"@"+seq, names)
	}
}

func TestASwappedPairIsFound(t *testing.T) {
	t.Parallel()
	tm := original(t)
	var head int
	_, err := fmt.Sscan(rows(t, tm.h.db, `SELECT max(seq) FROM checkpoints WHERE no = 1`)[0][0], &head)
	require.NoError(t, err)
	for seq := 1; seq < head; seq++ {
		// Two rows change places: their numbers in the thread are swapped.
		h := tm.copied(
			fmt.Sprintf(`UPDATE checkpoints SET seq = -1 WHERE no = 1 AND seq = %d`, seq),
			fmt.Sprintf(`UPDATE checkpoints SET seq = %d WHERE no = 1 AND seq = %d`, seq, seq+1),
			fmt.Sprintf(`UPDATE checkpoints SET seq = %d WHERE no = 1 AND seq = -1`, seq+1),
		)
		caught(h, fmt.Sprintf("the swap of one@%d and the next", seq), fmt.Sprintf("one@%d:", seq))
	}
	// A row of one thread put into the place of a row of another.
	h := tm.copied(withoutKeys,
		`UPDATE checkpoints SET seq = 1001 WHERE no = 1 AND seq = 2`,
		`UPDATE checkpoints SET no = 1 WHERE no = 2 AND seq = 2`,
		`UPDATE checkpoints SET no = 2, seq = 2 WHERE no = 1 AND seq = 1001`)
	caught(h, "the swap of one@2 and two@2", "one@2").says("two@2")
}

// TestAChangedWorkingTableIsFound changes every column of every question, and
// what a row of threads says of its log.
func TestAChangedWorkingTableIsFound(t *testing.T) {
	t.Parallel()
	tm := original(t)
	for _, column := range tm.columns("interrupts") {
		for _, row := range rows(t, tm.h.db, `SELECT t.thread_id, i.no, i.seq, typeof(i.`+column+`), coalesce(length(i.`+column+`), 0), i.state FROM interrupts i JOIN threads t ON t.no = i.no ORDER BY i.no, i.seq`) {
			length := 0
			_, err := fmt.Sscan(row[4], &length)
			require.NoError(t, err)
			change, names := tm.change(column, row[3], length), row[0]+"@"+row[2]
			switch column {
			case "no":
				change = "no + 1000"
			case "seq":
				change = "seq + 1000"
			case "state":
				change = map[string]string{"pending": "'answered'", "answered": "'pending'"}[row[5]]
			}
			h := tm.copied(withoutKeys, `UPDATE interrupts SET `+column+` = `+change+` WHERE no = `+row[1]+` AND seq = `+row[2])
			if column == "seq" {
				names = row[0] + "@" // the row is missing, and one is too many
			}
			caught(h, "column "+column+" of question "+names, names)
		}
	}
	for _, change := range []string{`status = 'done'`, `turn = turn + 1`, `graph = 'x'`, `graph_name = 'x'`, `thread_id = 'three'`} {
		h := tm.copied(`UPDATE threads SET ` + change + ` WHERE thread_id = 'two'`)
		names := "thread two"
		if strings.HasPrefix(change, "thread_id") {
			names = "three@1"
		}
		caught(h, change, names)
	}
	caught(tm.copied(withoutKeys, `DELETE FROM threads WHERE thread_id = 'two'`), "a removed thread", "no thread number 2")
	caught(tm.copied(`UPDATE graphs SET definition = CAST(replace(CAST(definition AS TEXT), 'deploy', 'destroy') AS BLOB)`), "a changed graph", "graph")
	caught(tm.copied(`UPDATE interrupts SET answer = replace(answer, 'reject', 'approve') WHERE no = 1 AND seq = (SELECT min(seq) FROM interrupts WHERE no = 1)`), "a changed answer", "one@")
}

// TestATamperedThreadIsNotLoaded: nobody goes on with a thread whose log does
// not fit, and nobody is shown it as if nothing had happened.
func TestATamperedThreadIsNotLoaded(t *testing.T) {
	t.Parallel()
	tm := original(t)
	before := len(tm.h.effects())
	h := tm.copied(`UPDATE checkpoints SET payload = CAST(replace(CAST(payload AS TEXT), 'deploy', 'destroy') AS BLOB) WHERE no = 2 AND kind = 'pause'`)
	for _, args := range [][]string{
		{"show", "two"}, {"resume", "two"}, {"answer", "two", "--approve"}, {"answer", "two@3", "--approve"},
	} {
		h.run(args...).exits(1).says("two@3", "audit verify")
	}
	require.Len(t, tm.h.effects(), before, "a command ran that nobody approved")
	// What is not touched can be used.
	h.run("show", "one").exits(0)
	h.run("resume", "one").exits(1).says("rejected")
}

// Package integration tests the built program as a user meets it: command
// lines in, output and exit codes out, real SQLite files, real processes that
// are killed with kill -9, stopped, raced and starved of disk.
//
// Rules that hold here:
//
//   - Nothing of the module is linked: what a test knows of a thread it read
//     from the program's own --json. The exceptions are tests that tamper with
//     a file, which is what somebody without the program would do.
//   - The program is built once a run, with the tag failpoint. So a test can
//     name the crash window in which a process dies.
//   - Commands of a turn leave a mark in the world (a line of a file named
//     effects) and die with their agent. "Nothing is lost and nothing is done
//     twice" is counted there, and not in the program's own words.
//   - Nobody sleeps. A test waits for a process to end, for a line in a pipe,
//     or (see harness.appears) for a file that another process creates.
//   - What is random prints its seed, and takes it back from
//     HOLDFAST_TEST_SEED.
package integration

// Command victim counts to three, with a fail point before each number. It is built by
// the tests of package failpoint.
package main

import (
	"fmt"
	"os"

	"github.com/holdfast-agent/holdfast/internal/failpoint"
)

func main() {
	code := 0
	defer func() { os.Exit(code) }()
	defer func() {
		fmt.Println("deferred")
		if r := recover(); r != nil {
			fmt.Fprintln(os.Stderr, r)
			code = 2
		}
	}()
	for i := 1; i <= 3; i++ {
		if err := failpoint.Hit("victim.hit"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
			return
		}
		fmt.Print(i, " ")
	}
}

package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// interruptible gives a context that ends with the first signal to stop. A
// second one, while the work is being stopped, ends the program at once: what
// it was doing is then treated as after a crash.
func (a *app) interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		// A signal that whoever started this program had it ignore (nohup) stays
		// ignored.
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-done:
			return
		case <-signals:
		}
		a.stopped.Store(true)
		if !a.resting.Load() {
			a.screen.line("stopping; once more to end at once")
		}
		cancel()
		select {
		case <-done:
		case <-signals:
			os.Exit(exitStopped)
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		<-ended
		cancel()
	}
}

// stopping reports whether a signal to stop has come.
func (a *app) stopping() bool { return a.stopped.Load() }

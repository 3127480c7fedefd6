package main

import (
	"context"
	"fmt"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	_ "github.com/dbos-inc/dbos-transact-golang/dbos/driver/sqlite"
)

func dbosStep(context.Context) (string, error) { return text, nil }

func dbosWorkflow(ctx dbos.Context, n int) (int, error) {
	for range n {
		if _, err := dbos.RunAsStep(ctx, dbosStep); err != nil {
			return 0, err
		}
	}
	return n, nil
}

func dbosApprove(ctx dbos.Context, _ int) (string, error) {
	if _, err := dbos.RunAsStep(ctx, dbosStep); err != nil {
		return "", err
	}
	answer, err := dbos.Recv[string](ctx, "approve", time.Minute)
	if err != nil {
		return "", err
	}
	if _, err := dbos.RunAsStep(ctx, dbosStep); err != nil {
		return "", err
	}
	return answer, nil
}

// openDBOS opens it with its defaults, but for synchronous.
func openDBOS(ctx context.Context, r room) (dbos.Context, error) {
	d, err := dbos.NewContext(ctx, dbos.Config{
		AppName: "bench", Logger: quiet,
		DatabaseURL: fmt.Sprintf("sqlite:file:%s?_pragma=synchronous(%s)", r.file(), r.sync),
	})
	if err != nil {
		return nil, err
	}
	dbos.RegisterWorkflow(d, dbosWorkflow)
	dbos.RegisterWorkflow(d, dbosApprove)
	return d, dbos.Launch(d)
}

func withDBOS(ctx context.Context, r room, do func(d dbos.Context) error) error {
	d, err := openDBOS(ctx, r)
	if err != nil {
		return err
	}
	defer func() { _ = dbos.Shutdown(d, 10*time.Second) }()
	return do(d)
}

func dbosRun(d dbos.Context, id string, n int) error {
	h, err := dbos.RunWorkflow(d, dbosWorkflow, n, dbos.WithWorkflowID(id))
	if err != nil {
		return err
	}
	_, err = h.GetResult()
	return err
}

func dbosSteps(ctx context.Context, r room) (us float64, err error) {
	err = withDBOS(ctx, r, func(d dbos.Context) error {
		began := time.Now()
		err := dbosRun(d, "t", r.n)
		us = each(began, r.n)
		return err
	})
	return us, err
}

func dbosSize(ctx context.Context, r room) (float64, error) {
	if _, err := dbosSteps(ctx, r); err != nil {
		return 0, err
	}
	size, err := fileSize(r.file())
	return size / float64(r.n*len(text)), err
}

func dbosThreads(ctx context.Context, r room) (us float64, err error) {
	err = withDBOS(ctx, r, func(d dbos.Context) (err error) {
		us, err = sideBySide(r.n, func(i int) error { return dbosRun(d, fmt.Sprint("t", i), r.n) })
		return err
	})
	return us, err
}

// dbosOpen reads the status of the workflow: it keeps no state but what its
// steps gave.
func dbosOpen(ctx context.Context, r room) (float64, error) {
	fast := r
	fast.sync = "NORMAL"
	err := withDBOS(ctx, fast, func(d dbos.Context) error { return dbosRun(d, "t", checkpoints) })
	if err != nil {
		return 0, err
	}
	began := time.Now()
	for range r.n {
		c, err := dbos.NewClient(ctx, dbos.ClientConfig{DatabaseURL: fmt.Sprintf("sqlite:file:%s?_pragma=synchronous(%s)", r.file(), r.sync), Logger: quiet})
		if err != nil {
			return 0, err
		}
		h, err := dbos.RetrieveWorkflow[int](c, "t")
		if err != nil {
			return 0, err
		}
		if _, err := h.GetStatus(); err != nil {
			return 0, err
		}
		if err := dbos.Shutdown(c, 10*time.Second); err != nil {
			return 0, err
		}
	}
	return each(began, r.n), nil
}

func dbosTurns(ctx context.Context, r room) (us float64, err error) {
	err = withDBOS(ctx, r, func(d dbos.Context) error {
		began := time.Now()
		for i := range r.n {
			id := fmt.Sprint("t", i)
			h, err := dbos.RunWorkflow(d, dbosApprove, 0, dbos.WithWorkflowID(id))
			if err != nil {
				return err
			}
			if err := dbos.Send(d, id, "yes", "approve"); err != nil {
				return err
			}
			if _, err := h.GetResult(); err != nil {
				return err
			}
		}
		us = each(began, r.n)
		return nil
	})
	return us, err
}

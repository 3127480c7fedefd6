package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/backend/sqlite"
	"github.com/cschleiden/go-workflows/client"
	"github.com/cschleiden/go-workflows/worker"
	"github.com/cschleiden/go-workflows/workflow"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func gwActivity(context.Context) (string, error) { return text, nil }

func gwSteps(ctx workflow.Context, n int) error {
	for range n {
		if _, err := workflow.ExecuteActivity[string](ctx, workflow.DefaultActivityOptions, gwActivity).Get(ctx); err != nil {
			return err
		}
	}
	return nil
}

func gwApprove(ctx workflow.Context) error {
	if _, err := workflow.ExecuteActivity[string](ctx, workflow.DefaultActivityOptions, gwActivity).Get(ctx); err != nil {
		return err
	}
	if _, ok := workflow.NewSignalChannel[string](ctx, "approve").Receive(ctx); !ok {
		return fmt.Errorf("the signal's channel is closed")
	}
	_, err := workflow.ExecuteActivity[string](ctx, workflow.DefaultActivityOptions, gwActivity).Get(ctx)
	return err
}

// goWorkflows runs do with a worker and its defaults; only synchronous is set,
// and the history may be as long as the work needs.
func goWorkflows(ctx context.Context, r room, do func(ctx context.Context, c *client.Client) error) error {
	b := sqlite.NewSqliteBackend(r.file()+"?_pragma=synchronous("+r.sync+")",
		sqlite.WithBackendOptions(backend.WithLogger(quiet), backend.WithMaxHistorySize(1_000_000)))
	defer b.Close()
	ctx, cancel := context.WithCancel(ctx)
	w := worker.New(b, nil)
	defer func() { cancel(); _ = w.WaitForCompletion() }()
	for _, wf := range []workflow.Workflow{gwSteps, gwApprove} {
		if err := w.RegisterWorkflow(wf); err != nil {
			return err
		}
	}
	if err := w.RegisterActivity(gwActivity); err != nil {
		return err
	}
	if err := w.Start(ctx); err != nil {
		return err
	}
	return do(ctx, client.New(b))
}

func gwRun(ctx context.Context, c *client.Client, id string, n int) error {
	wf, err := c.CreateWorkflowInstance(ctx, client.WorkflowInstanceOptions{InstanceID: id}, gwSteps, n)
	if err != nil {
		return err
	}
	return c.WaitForWorkflowInstance(ctx, wf, 4*time.Minute)
}

func goWorkflowsSteps(ctx context.Context, r room) (us float64, err error) {
	err = goWorkflows(ctx, r, func(ctx context.Context, c *client.Client) error {
		began := time.Now()
		err := gwRun(ctx, c, "t", r.n)
		us = each(began, r.n)
		return err
	})
	return us, err
}

func goWorkflowsThreads(ctx context.Context, r room) (us float64, err error) {
	err = goWorkflows(ctx, r, func(ctx context.Context, c *client.Client) (err error) {
		us, err = sideBySide(r.n, func(i int) error { return gwRun(ctx, c, fmt.Sprint("t", i), r.n) })
		return err
	})
	return us, err
}

func goWorkflowsTurns(ctx context.Context, r room) (us float64, err error) {
	err = goWorkflows(ctx, r, func(ctx context.Context, c *client.Client) error {
		began := time.Now()
		for i := range r.n {
			id := fmt.Sprint("t", i)
			wf, err := c.CreateWorkflowInstance(ctx, client.WorkflowInstanceOptions{InstanceID: id}, gwApprove)
			if err != nil {
				return err
			}
			if err := c.SignalWorkflow(ctx, id, "approve", "yes"); err != nil {
				return err
			}
			if err := c.WaitForWorkflowInstance(ctx, wf, time.Minute); err != nil {
				return err
			}
		}
		us = each(began, r.n)
		return nil
	})
	return us, err
}

package main

import "strings"

// text is what a step writes: 200 bytes.
var text = strings.Repeat("x", 200)

const threads = 64

func works() []work {
	return []work{
		{
			name: "W1-FULL", about: "one thread, a step with its commit, synchronous=FULL", unit: "us a step", want: "1.25x", n: 2000,
			systems: []system{
				{name: "bare insert", run: bareSteps},
				{name: "Holdfast", run: holdfastSteps},
				{name: "DBOS Transact", run: dbosSteps},
				{name: "go-workflows", n: 30, run: goWorkflowsSteps},
				{name: "LangGraph JS, SQLite saver", n: 500, run: langGraph("steps")},
			},
		},
		{
			name: "W1-NORMAL", about: "the same, synchronous=NORMAL", unit: "us a step", want: "1.4x", n: 5000,
			systems: []system{
				{name: "bare insert", run: bareSteps},
				{name: "Holdfast", run: holdfastSteps},
				{name: "DBOS Transact", run: dbosSteps},
				{name: "go-workflows", n: 30, run: goWorkflowsSteps},
				{name: "LangGraph JS, SQLite saver", n: 500, run: langGraph("steps")},
			},
		},
		{
			name: "W2", about: "a list that grows by 200 bytes a step, 1,000 steps: bytes of file a byte of data", unit: "bytes a byte", want: "at most 4 bytes a byte", n: 1000,
			systems: []system{
				{name: "bare insert", run: bareSize},
				{name: "Holdfast", run: holdfastSize},
				{name: "DBOS Transact", run: dbosSize},
				{name: "LangGraph JS, SQLite saver", run: langGraph("size")},
			},
		},
		{
			name: "W3", about: "64 threads at once, a step with its commit, synchronous=FULL", unit: "us a step", want: "1.4x", n: 200,
			systems: []system{
				{name: "bare inserts, grouped", run: bareThreads},
				{name: "Holdfast", run: holdfastThreads},
				{name: "DBOS Transact", n: 20, run: dbosThreads},
				{name: "go-workflows", n: 5, run: goWorkflowsThreads},
				{name: "LangGraph JS, SQLite saver", n: 20, run: langGraph("threads")},
			},
		},
		{
			name: "W4a", about: "a one-node step, no store", unit: "us a step", want: "2x", n: 100000,
			systems: []system{
				{name: "Go loop over a map of functions", n: 1000000, run: goLoop},
				{name: "Holdfast", run: holdfastMemorySteps},
				{name: "Eino", n: 20000, run: einoSteps},
				{name: "LangGraph JS, no saver", n: 1000, run: langGraph("memory")},
			},
		},
		{
			name: "W4b", about: "a fan-out of 5 and a join, no store", unit: "us a round", want: "6x", n: 20000,
			systems: []system{
				{name: "5 goroutines and a join", run: goFanOut},
				{name: "Holdfast", run: holdfastFanOut},
				{name: "Eino", n: 5000, run: einoFanOut},
				{name: "LangGraph JS, no saver", n: 500, run: langGraph("fanout")},
			},
		},
		{
			name: "W5", about: "open the file and read the newest state, 10,000 checkpoints", unit: "us", want: "2x", n: 30,
			systems: []system{
				{name: "open and read one row", run: bareOpen},
				{name: "Holdfast", run: holdfastOpen},
				{name: "DBOS Transact, status only", n: 5, run: dbosOpen},
				{name: "LangGraph JS, SQLite saver", run: langGraph("open")},
			},
		},
		{
			name: "W6", about: "input, step and pause, answer, last step, synchronous=FULL", unit: "us a turn", want: "1.3x", n: 300,
			systems: []system{
				{name: "four bare commits", run: bareTurns},
				{name: "Holdfast", run: holdfastTurns},
				{name: "DBOS Transact, Send and Recv", n: 20, run: dbosTurns},
				{name: "go-workflows, a signal", n: 5, run: goWorkflowsTurns},
				{name: "LangGraph JS, interrupt and resume", n: 100, run: langGraph("turns")},
			},
		},
	}
}

package main

import (
	"context"
	"sync"
	"time"
)

func goLoop(_ context.Context, r room) (float64, error) {
	state := map[string]any{}
	n := 0
	nodes := map[string]func(map[string]any) (map[string]any, string){
		"work": func(map[string]any) (map[string]any, string) {
			n++
			if n >= r.n {
				return map[string]any{"text": text}, "end"
			}
			return map[string]any{"text": text}, "work"
		},
	}
	began := time.Now()
	for next := "work"; next != "end"; {
		var writes map[string]any
		writes, next = nodes[next](state)
		for channel, v := range writes {
			state[channel] = v
		}
	}
	return each(began, r.n), nil
}

func goFanOut(_ context.Context, r room) (float64, error) {
	sum := 0
	began := time.Now()
	for range r.n {
		var wg sync.WaitGroup
		var parts [5]int
		for i := range parts {
			wg.Go(func() { parts[i] = 1 })
		}
		wg.Wait()
		for _, part := range parts {
			sum += part
		}
	}
	return each(began, r.n), nil
}

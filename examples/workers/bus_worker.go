// A bus worker in Go, with nothing but the standard library: register, poll, ack, execute, done.
//
//	go build -o bus_worker examples/workers/bus_worker.go && shiftboss conformance --worker ./bus_worker
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

type fields map[string]any

type task struct {
	BeadID string `json:"bead_id"`
	Title  string
	Epoch  int
}

type answer struct {
	task   // of a heartbeat: what the worker holds
	Task   *task
	Detail string
}

func env(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

var (
	url    = env("SHIFTBOSS_URL", "http://127.0.0.1:7432")
	swarm  = env("SHIFTBOSS_SWARM", "default")
	name   = env("SHIFTBOSS_WORKER", "go-1")
	client = &http.Client{Timeout: 40 * time.Second} // longer than a poll
)

// token is read for every call: it may be replaced.
func token() string {
	if given := os.Getenv("SHIFTBOSS_TOKEN"); given != "" {
		return given
	}
	content, _ := os.ReadFile(os.Getenv("SHIFTBOSS_TOKEN_FILE"))
	first, _, _ := strings.Cut(string(content), "\n")
	return first
}

// call repeats until the server answers, always with the same key: it counts once. The error is a
// refusal: the server has understood the call, and says no.
func call(operation string, members fields) (got answer, refusal error) {
	members["swarm_id"] = swarm
	body, _ := json.Marshal(members)
	key := fmt.Sprintf("%s-%d-%d", name, os.Getpid(), time.Now().UnixNano())
	for wait := 200 * time.Millisecond; ; wait = 2 * wait {
		request, _ := http.NewRequest("POST", url+"/bus/"+operation, bytes.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Idempotency-Key", key)
		if given := token(); given != "" {
			request.Header.Set("Authorization", "Bearer "+given)
		}
		if response, err := client.Do(request); err == nil {
			err = json.NewDecoder(response.Body).Decode(&got) // of a gateway: not JSON, so an error
			response.Body.Close()
			status := response.StatusCode
			if err == nil && status < 300 {
				return got, nil
			} else if err == nil && status == 401 {
				log.Print(got.Detail) // until there is another token
			} else if err == nil && status < 500 && status != 408 && status != 425 && status != 429 {
				return got, errors.New(got.Detail)
			}
			if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
				wait = time.Duration(seconds) * time.Second
			}
		}
		if wait > 5*time.Second {
			wait = 5 * time.Second
		}
		time.Sleep(wait)
	}
}

// execute is the work itself: the title says what to do. An error fails the task.
func execute(title string, lost *atomic.Bool) error {
	verb, rest, _ := strings.Cut(title, " ")
	switch verb {
	case "done":
		return nil
	case "fail":
		return errors.New(rest)
	case "wait":
		for _, err := os.Stat(rest); err != nil && !lost.Load(); _, err = os.Stat(rest) {
			time.Sleep(50 * time.Millisecond)
		}
		return nil
	}
	return errors.New("unknown instruction: " + title)
}

func beat(held task, lost *atomic.Bool, over chan struct{}) {
	seconds, _ := strconv.ParseFloat(env("SHIFTBOSS_HEARTBEAT_SECONDS", "20"), 64)
	for {
		select {
		case <-over:
			return
		case <-time.After(time.Duration(seconds * float64(time.Second))):
			got, refusal := call("heartbeat", fields{"name": name, "bead_id": held.BeadID, "epoch": held.Epoch})
			lost.Store(refusal != nil || got.BeadID != held.BeadID || got.Epoch != held.Epoch)
		}
	}
}

func perform(given task) error {
	mine := fields{"name": name, "bead_id": given.BeadID, "epoch": given.Epoch}
	if _, refusal := call("ack_task", mine); refusal != nil {
		return refusal
	}
	var lost atomic.Bool
	over := make(chan struct{})
	defer close(over)
	go beat(given, &lost, over)
	operation := "worker_done"
	if failure := execute(given.Title, &lost); failure != nil {
		operation, mine["reason"] = "task_failed", failure.Error()
	}
	_, refusal := call(operation, mine)
	return refusal
}

func main() {
	call("register_worker", fields{"name": name})
	for {
		polled, refusal := call("poll_task", fields{"name": name, "timeout_ms": 30000})
		if refusal != nil { // the server has forgotten us
			log.Print(refusal)
			time.Sleep(time.Second)
			call("register_worker", fields{"name": name})
		} else if polled.Task != nil {
			if refusal := perform(*polled.Task); refusal != nil {
				log.Printf("%s: %v", polled.Task.BeadID, refusal)
			}
		}
	}
}

// Floods the gRPC server on SOCKET in as many ways as Go's client can, and prints a line for each: its name, the seconds that it took, the longest
// that a Probe of another connection waited meanwhile, and how often each code came.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	probe    = "/csi.v1.Identity/Probe"
	patience = 60 * time.Second
)

var address = "unix://" + os.Args[1]

func connect() *grpc.ClientConn {
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
	if err != nil {
		panic(err)
	}
	return connection
}

// Counts codes of many goroutines.
type counter struct {
	lock  sync.Mutex
	found map[codes.Code]int
}

func (c *counter) add(err error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.found[status.Code(err)]++
}

func (c *counter) String() string {
	var words []string
	for code, times := range c.found {
		words = append(words, fmt.Sprintf("%s=%d", code, times))
	}
	sort.Strings(words)
	return strings.Join(words, ",")
}

// Calls `times` times, `together` at once.
func many(times, together int, call func(number int) error) *counter {
	seen := &counter{found: map[codes.Code]int{}}
	var group sync.WaitGroup
	places := make(chan struct{}, together)
	for number := 0; number < times; number++ {
		places <- struct{}{}
		group.Add(1)
		go func() {
			defer group.Done()
			seen.add(call(number))
			<-places
		}()
	}
	group.Wait()
	return seen
}

func ask(connection *grpc.ClientConn, ctx context.Context) error {
	return connection.Invoke(ctx, probe, &emptypb.Empty{}, &emptypb.Empty{})
}

func waiting(limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), limit)
}

func atOnce(together int) func() *counter {
	return func() *counter {
		connection := connect()
		defer connection.Close()
		return many(20_000, together, func(int) error {
			ctx, cancel := waiting(patience)
			defer cancel()
			return ask(connection, ctx)
		})
	}
}

// Rapid reset, as a client by the book can do it: each call is given up as soon as it has been sent.
func givenUp() *counter {
	connection := connect()
	defer connection.Close()
	return many(20_000, 50, func(int) error {
		ctx, cancel := waiting(patience)
		stream, err := connection.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, probe)
		if err == nil {
			err = stream.SendMsg(&emptypb.Empty{})
		}
		cancel()
		return err
	})
}

func deadlines() *counter {
	connection := connect()
	defer connection.Close()
	return many(5_000, 500, func(int) error {
		ctx, cancel := waiting(2 * time.Millisecond)
		defer cancel()
		return ask(connection, ctx)
	})
}

func connections() *counter {
	return many(1_000, 200, func(int) error {
		connection := connect()
		defer connection.Close()
		ctx, cancel := waiting(patience)
		defer cancel()
		return ask(connection, ctx)
	})
}

// Beyond what the server says that it takes.
func fields() *counter {
	connection := connect()
	defer connection.Close()
	pairs := make([]string, 0, 100_000)
	for number := 0; number < 50_000; number++ {
		pairs = append(pairs, fmt.Sprintf("k%d", number), "v")
	}
	return many(20, 4, func(int) error {
		ctx, cancel := waiting(patience)
		defer cancel()
		return ask(connection, metadata.AppendToOutgoingContext(ctx, pairs...))
	})
}

func messages(bytesOfEach int) func() *counter {
	return func() *counter {
		connection := connect()
		defer connection.Close()
		request := wrapperspb.Bytes(bytes.Repeat([]byte("x"), bytesOfEach))
		return many(40, 8, func(int) error {
			ctx, cancel := waiting(patience)
			defer cancel()
			return connection.Invoke(ctx, probe, request, &emptypb.Empty{})
		})
	}
}

func unknown() *counter {
	connection := connect()
	defer connection.Close()
	return many(5_000, 500, func(number int) error {
		ctx, cancel := waiting(patience)
		defer cancel()
		return connection.Invoke(ctx, fmt.Sprintf("/%s.V%d/None", strings.Repeat("x", 4_000), number), &emptypb.Empty{}, &emptypb.Empty{})
	})
}

// The longest that a call on a connection of its own waited until `done`.
func longest(done <-chan struct{}, found chan<- time.Duration) {
	connection := connect()
	defer connection.Close()
	var worst time.Duration
	for {
		began := time.Now()
		ctx, cancel := waiting(patience)
		if err := ask(connection, ctx); err != nil && status.Code(err) != codes.Unavailable {
			panic(err)
		}
		cancel()
		worst = max(worst, time.Since(began))
		select {
		case <-done:
			found <- worst
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func main() {
	floods := []struct {
		name string
		run  func() *counter
	}{
		{"500-at-once", atOnce(500)}, {"1000-at-once", atOnce(1_000)}, {"given-up", givenUp}, {"deadlines", deadlines}, {"connections", connections}, {"fields", fields},
		{"messages-of-1-MiB", messages(1 << 20)}, {"messages-of-16-MiB", messages(16 << 20)}, {"unknown-methods", unknown},
	}
	for _, flood := range floods {
		done, found := make(chan struct{}), make(chan time.Duration, 1)
		go longest(done, found)
		began := time.Now()
		seen := flood.run()
		took := time.Since(began)
		close(done)
		fmt.Printf("%s\t%.2f\t%.3f\t%s\n", flood.name, took.Seconds(), (<-found).Seconds(), seen)
	}
}

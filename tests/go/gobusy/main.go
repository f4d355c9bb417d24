// gobusy: a busy program on etcd's own client, for as many seconds as given, through the endpoint given: reads of which
// every second is given up before its answer, watches that come and go, values that are large enough for gRPC's pings
// that measure bandwidth, and a lease that is kept. Prints what it did; ends with 1 when anything failed that it had not
// given up itself.
//
//	gobusy ENDPOINT SECONDS
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var reads, givenUp, watches, events, puts atomic.Int64

func must(what string, err error) {
	if err != nil {
		fmt.Println("FAILED", what+":", err)
		os.Exit(1)
	}
}

// Whether the caller itself has given up.
func isOwn(err error) bool {
	code := status.Code(err)
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || code == codes.Canceled ||
		code == codes.DeadlineExceeded
}

func read(ctx context.Context, c *clientv3.Client) {
	for n := 0; ctx.Err() == nil; n++ {
		own, cancel := context.WithCancel(ctx)
		if n%2 == 1 { // before, while or after it is answered
			time.AfterFunc(time.Duration(n%10)*100*time.Microsecond, cancel)
		}
		_, err := c.Get(own, "/busy/", clientv3.WithPrefix())
		cancel()
		if err == nil {
			reads.Add(1)
		} else if isOwn(err) {
			givenUp.Add(1)
		} else {
			must("get", err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func watch(ctx context.Context, c *clientv3.Client, number int) {
	for n := 0; ctx.Err() == nil; n++ {
		own, cancel := context.WithTimeout(ctx, time.Duration(10+(number*37+n*13)%200)*time.Millisecond)
		for answer := range c.Watch(own, "/busy/", clientv3.WithPrefix()) {
			if answer.Err() != nil && !isOwn(answer.Err()) {
				must("watch", answer.Err())
			}
			events.Add(int64(len(answer.Events)))
		}
		cancel()
		watches.Add(1)
	}
}

func put(ctx context.Context, c *clientv3.Client) {
	value := strings.Repeat("x", 64<<10)
	for n := 0; ctx.Err() == nil; n++ {
		_, err := c.Put(ctx, fmt.Sprintf("/busy/%d", n%8), value)
		if err != nil && ctx.Err() == nil {
			must("put", err)
		}
		puts.Add(1)
		time.Sleep(20 * time.Millisecond)
	}
}

func keep(ctx context.Context, c *clientv3.Client) {
	lease, err := c.Grant(ctx, 3)
	must("grant", err)
	answers, err := c.KeepAlive(ctx, lease.ID)
	must("keep-alive", err)
	for range answers {
	}
	if ctx.Err() == nil {
		must("keep-alive", errors.New("it has ended"))
	}
}

func main() {
	seconds, err := strconv.Atoi(os.Args[2])
	must("seconds", err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(seconds)*time.Second)
	defer cancel()
	var wait sync.WaitGroup
	begin := func(what func()) {
		wait.Add(1)
		go func() {
			defer wait.Done()
			what()
		}()
	}
	for i := 0; i < 4; i++ {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{os.Args[1]}, DialTimeout: 5 * time.Second})
		must("connect", err)
		defer c.Close()
		begin(func() { read(ctx, c) })
		begin(func() { keep(ctx, c) })
		for n := 0; n < 5; n++ {
			number := 5*i + n
			begin(func() { watch(ctx, c, number) })
		}
		if i == 0 {
			begin(func() { put(ctx, c) })
		}
	}
	wait.Wait()
	fmt.Printf("reads=%d given_up=%d watches=%d events=%d puts=%d\n", reads.Load(), givenUp.Load(), watches.Load(), events.Load(),
		puts.Load())
}

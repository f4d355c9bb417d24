// goclient: the recipes of clientv3's concurrency package, one after another, through the endpoints given: sessions, locks,
// an election with an observer, software transactions. Prints one line for each and ends with 0 when all hold.
//
//	goclient ENDPOINTS
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

func must(what string, err error) {
	if err != nil {
		fmt.Println("FAILED", what+":", err)
		os.Exit(1)
	}
}

func session(c *clientv3.Client) *concurrency.Session {
	s, err := concurrency.NewSession(c, concurrency.WithTTL(5))
	must("session", err)
	return s
}

// Eight contenders add to a plain variable under a lock: any overlap loses an addition.
func locks(ctx context.Context, c *clientv3.Client) {
	var wait sync.WaitGroup
	counter, inside := 0, 0
	for i := 0; i < 8; i++ {
		wait.Add(1)
		go func() {
			defer wait.Done()
			s := session(c)
			defer s.Close()
			m := concurrency.NewMutex(s, "/goclient/lock/")
			for n := 0; n < 5; n++ {
				must("lock", m.Lock(ctx))
				inside++
				if inside != 1 {
					must("lock", fmt.Errorf("%d inside", inside))
				}
				counter++
				inside--
				must("unlock", m.Unlock(ctx))
			}
		}()
	}
	wait.Wait()
	if counter != 40 {
		must("locks", fmt.Errorf("counted %d", counter))
	}
	fmt.Println("locks ok")
}

// Three candidates lead in turn, and an observer sees each of them.
func election(ctx context.Context, c *clientv3.Client) {
	watcher := session(c)
	defer watcher.Close()
	observed := concurrency.NewElection(watcher, "/goclient/election/").Observe(ctx)
	seen := make(chan string, 16)
	go func() {
		for r := range observed {
			seen <- string(r.Kvs[0].Value)
		}
	}()
	for i := 0; i < 3; i++ {
		s := session(c)
		e := concurrency.NewElection(s, "/goclient/election/")
		name := "candidate-" + strconv.Itoa(i)
		must("campaign", e.Campaign(ctx, name))
		select {
		case got := <-seen:
			if got != name {
				must("observe", fmt.Errorf("saw %q, not %q", got, name))
			}
		case <-ctx.Done():
			must("observe", ctx.Err())
		}
		must("resign", e.Resign(ctx))
		s.Close()
	}
	fmt.Println("election ok")
}

// Concurrent transfers between accounts keep the sum.
func transactions(ctx context.Context, c *clientv3.Client) {
	for i := 0; i < 4; i++ {
		_, err := c.Put(ctx, fmt.Sprintf("/goclient/account/%d", i), "100")
		must("put", err)
	}
	var wait sync.WaitGroup
	for i := 0; i < 4; i++ {
		wait.Add(1)
		go func(i int) {
			defer wait.Done()
			for n := 0; n < 10; n++ {
				_, err := concurrency.NewSTM(c, func(stm concurrency.STM) error {
					from, to := fmt.Sprintf("/goclient/account/%d", i), fmt.Sprintf("/goclient/account/%d", (i+1+n%3)%4)
					a, _ := strconv.Atoi(stm.Get(from))
					b, _ := strconv.Atoi(stm.Get(to))
					stm.Put(from, strconv.Itoa(a-1))
					stm.Put(to, strconv.Itoa(b+1))
					return nil
				})
				must("stm", err)
			}
		}(i)
	}
	wait.Wait()
	sum := 0
	got, err := c.Get(ctx, "/goclient/account/", clientv3.WithPrefix())
	must("get", err)
	for _, kv := range got.Kvs {
		n, _ := strconv.Atoi(string(kv.Value))
		sum += n
	}
	if sum != 400 {
		must("stm", fmt.Errorf("the sum is %d", sum))
	}
	fmt.Println("transactions ok")
}

// A lease that is kept alive holds its key; one that is not lets go of it, and the watch tells.
func leases(ctx context.Context, c *clientv3.Client) {
	kept, err := c.Grant(ctx, 2)
	must("grant", err)
	left, err := c.Grant(ctx, 1)
	must("grant", err)
	_, err = c.KeepAlive(ctx, kept.ID)
	must("keepalive", err)
	_, err = c.Put(ctx, "/goclient/kept", "1", clientv3.WithLease(kept.ID))
	must("put", err)
	put, err := c.Put(ctx, "/goclient/left", "1", clientv3.WithLease(left.ID))
	must("put", err)
	for r := range c.Watch(ctx, "/goclient/left", clientv3.WithRev(put.Header.Revision+1)) {
		must("watch", r.Err())
		if len(r.Events) > 0 {
			break
		}
	}
	time.Sleep(2 * time.Second)
	got, err := c.Get(ctx, "/goclient/kept")
	must("get", err)
	if len(got.Kvs) != 1 {
		must("lease", fmt.Errorf("the key of a lease that is kept alive is gone"))
	}
	fmt.Println("leases ok")
}

func main() {
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(os.Args[1], ","), DialTimeout: 5 * time.Second})
	must("client", err)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	locks(ctx, client)
	election(ctx, client)
	transactions(ctx, client)
	leases(ctx, client)
	fmt.Println("all ok")
}

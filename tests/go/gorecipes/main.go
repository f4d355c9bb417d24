// gorecipes: clientv3's concurrency package under contention, by contenders that each have one of the endpoints given:
// locks, an election and software transactions, all at the same time, for as many seconds as given.
//
//	gorecipes SECONDS ENDPOINT...
//
// What must hold, and ends it with 1 at once when it does not:
//   - One contender holds the lock. Whoever has it adds one to a number by a read and a write that compares the lock
//     alone: a read that is behind loses an addition.
//   - One candidate leads, and reads through every endpoint say so. An observer never sees an older leader after a
//     newer one.
//   - Transfers between accounts, in three isolation levels, keep the sum in every read of them all.
//
// A call may fail when a server goes away: it is counted, and the contender goes on with a new session. Prints what was
// done.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

const (
	contenders = 3 // of each kind, on each endpoint
	accounts   = 6
	balance    = 100
	ttl        = 30 // seconds of a session: more than any server is away
	number     = "/recipes/number"
)

var additions, unsure, terms, observed, transfers, sums, failures atomic.Int64

func fail(format string, args ...any) {
	fmt.Printf("FAILED "+format+"\n", args...)
	os.Exit(1)
}

func connect(endpoint string) *clientv3.Client {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 10 * time.Second})
	if err != nil {
		fail("connect: %v", err)
	}
	return c
}

// One who goes on until the time is over; a failed turn is counted, and the next one has a new session.
func contend(ctx context.Context, c *clientv3.Client, turn func(s *concurrency.Session) error) {
	for ctx.Err() == nil {
		s, err := concurrency.NewSession(c, concurrency.WithTTL(ttl), concurrency.WithContext(ctx))
		for err == nil && ctx.Err() == nil {
			err = turn(s)
		}
		if ctx.Err() == nil {
			failures.Add(1)
			time.Sleep(50 * time.Millisecond)
		}
		if s != nil { // revokes the lease, and with it whatever place the contender has left
			s.Close()
		}
	}
}

// ---- the lock

var holders atomic.Int64

// errLost: the lock was gone when the number was to be written.
var errLost = errors.New("the lock was lost")

func read(ctx context.Context, c *clientv3.Client) (int64, error) {
	got, err := c.Get(ctx, number)
	if err != nil || len(got.Kvs) == 0 {
		return 0, err
	}
	return strconv.ParseInt(string(got.Kvs[0].Value), 10, 64)
}

// Between Lock() and Unlock().
func add(ctx context.Context, c *clientv3.Client, m *concurrency.Mutex) error {
	if n := holders.Add(1); n != 1 {
		fail("lock: %d hold it", n)
	}
	defer holders.Add(-1)
	n, err := read(ctx, c)
	if err != nil {
		return err
	}
	if least := additions.Load(); n < least {
		fail("lock: a read has %d, %d were added before", n, least)
	}
	done, err := c.Txn(ctx).If(m.IsOwner()).Then(clientv3.OpPut(number, strconv.FormatInt(n+1, 10))).Commit()
	if err != nil {
		unsure.Add(1) // it may have been written
		return err
	}
	if !done.Succeeded {
		return errLost
	}
	additions.Add(1)
	return nil
}

func lock(ctx context.Context, c *clientv3.Client, s *concurrency.Session) error {
	m := concurrency.NewMutex(s, "/recipes/lock/")
	if err := m.Lock(ctx); err != nil {
		return err
	}
	if err := add(ctx, c, m); err != nil {
		return err
	}
	return m.Unlock(ctx)
}

// ---- the election

var leaders atomic.Int64

func lead(ctx context.Context, s *concurrency.Session, name string, all []*clientv3.Client) error {
	e := concurrency.NewElection(s, "/recipes/election/")
	if err := e.Campaign(ctx, name); err != nil {
		return err
	}
	if n := leaders.Add(1); n != 1 {
		fail("election: %d lead", n)
	}
	err := isLeader(ctx, name, e.Key(), all)
	leaders.Add(-1)
	if err != nil {
		return err
	}
	terms.Add(1)
	return e.Resign(ctx)
}

// As it is told through every endpoint.
func isLeader(ctx context.Context, name, key string, all []*clientv3.Client) error {
	for _, c := range all {
		got, err := c.Get(ctx, "/recipes/election/", clientv3.WithFirstCreate()...)
		if err != nil {
			return err
		}
		if len(got.Kvs) != 1 || string(got.Kvs[0].Key) != key || string(got.Kvs[0].Value) != name {
			fail("election: %s leads with %s, a read has %v", name, key, got.Kvs)
		}
	}
	return nil
}

func observe(ctx context.Context, s *concurrency.Session) error {
	var newest int64
	for r := range concurrency.NewElection(s, "/recipes/election/").Observe(ctx) {
		if created := r.Kvs[0].CreateRevision; created < newest {
			fail("election: the leader of %d was seen after that of %d", created, newest)
		} else {
			newest = created
		}
		observed.Add(1)
	}
	return errors.New("the observer has ended")
}

// ---- transactions

var levels = []concurrency.Isolation{
	concurrency.SerializableSnapshot,
	concurrency.Serializable,
	concurrency.RepeatableReads,
}

func account(n int) string { return fmt.Sprintf("/recipes/account/%d", n) }

func transfer(ctx context.Context, c *clientv3.Client) error {
	from := rand.Intn(accounts)
	to := (from + 1 + rand.Intn(accounts-1)) % accounts
	_, err := concurrency.NewSTM(c, func(stm concurrency.STM) error {
		a, _ := strconv.Atoi(stm.Get(account(from)))
		b, _ := strconv.Atoi(stm.Get(account(to)))
		stm.Put(account(from), strconv.Itoa(a-1))
		stm.Put(account(to), strconv.Itoa(b+1))
		return nil
	}, concurrency.WithIsolation(levels[rand.Intn(len(levels))]), concurrency.WithAbortContext(ctx))
	if err == nil {
		transfers.Add(1)
	}
	return err
}

func checkSum(ctx context.Context, c *clientv3.Client) error {
	got, err := c.Get(ctx, "/recipes/account/", clientv3.WithPrefix())
	if err != nil {
		return err
	}
	sum := 0
	for _, kv := range got.Kvs {
		n, _ := strconv.Atoi(string(kv.Value))
		sum += n
	}
	if sum != accounts*balance {
		fail("transactions: the sum is %d at revision %d", sum, got.Header.Revision)
	}
	sums.Add(1)
	time.Sleep(5 * time.Millisecond)
	return nil
}

func main() {
	seconds, err := strconv.Atoi(os.Args[1])
	if err != nil || len(os.Args) < 3 {
		fail("say gorecipes SECONDS ENDPOINT...")
	}
	var all []*clientv3.Client
	for _, endpoint := range os.Args[2:] {
		all = append(all, connect(endpoint))
	}
	for i := 0; i < accounts; i++ {
		if _, err := all[0].Put(context.Background(), account(i), strconv.Itoa(balance)); err != nil {
			fail("put: %v", err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(seconds)*time.Second)
	defer cancel()
	var wait sync.WaitGroup
	begin := func(c *clientv3.Client, turn func(s *concurrency.Session) error) {
		wait.Add(1)
		go func() {
			defer wait.Done()
			contend(ctx, c, turn)
		}()
	}
	for i, endpoint := range os.Args[2:] {
		c := all[i]
		begin(c, func(s *concurrency.Session) error { return observe(ctx, s) })
		begin(c, func(*concurrency.Session) error { return checkSum(ctx, c) })
		for n := 0; n < contenders; n++ {
			own := connect(endpoint)
			name := fmt.Sprintf("%s-%d", endpoint, n)
			begin(own, func(s *concurrency.Session) error { return lock(ctx, own, s) })
			begin(own, func(s *concurrency.Session) error { return lead(ctx, s, name, all) })
			begin(own, func(*concurrency.Session) error { return transfer(ctx, own) })
		}
	}
	wait.Wait()
	end, err := read(context.Background(), all[0])
	if err != nil {
		fail("get: %v", err)
	}
	// whoever was in the middle of it when the time was over is unsure as well
	if least := additions.Load(); end < least || end > least+unsure.Load() {
		fail("lock: the number is %d, %d were added and %d perhaps", end, least, unsure.Load())
	}
	fmt.Printf("additions=%d unsure=%d terms=%d observed=%d transfers=%d sums=%d failures=%d\n", additions.Load(),
		unsure.Load(), terms.Load(), observed.Load(), transfers.Load(), sums.Load(), failures.Load())
}

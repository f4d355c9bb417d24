// gorecorder: what tests/programs/recorder does with libbelfry, done with etcd's own clientv3: it writes down everything
// that the watches of one client are given, in the same form, for the same checker.
//
//	gorecorder ENDPOINTS RECORD [hasleader=true] [cacert=F cert=F key=F] [user=NAME password=P]
//
// Commands on stdin, each answered with "ok ..." or "no ...": watch N KIND KEY END [NAME=VALUE ...], progress, status,
// stats, quit. Keys in hex, "-" being the empty one. Options of a watch: rev, prev-kv, progress-notify, no-put, no-delete,
// fragment.
package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/mvccpb"
	"go.etcd.io/etcd/client/pkg/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
)

type watch struct {
	number, rev, place int64
	events             int
	member             uint64
	state, err         string
}

var (
	mu      sync.Mutex // guards what follows
	watches = map[int64]*watch{}
	record  *bufio.Writer
	creates int
	began   = time.Now()
)

func us() int64 { return time.Since(began).Microseconds() }

func keyText(key []byte) string {
	if len(key) == 0 {
		return "-"
	}
	if len(key) > 64 {
		return fmt.Sprintf("*%d,%d", len(key), crc32.ChecksumIEEE(key))
	}
	return hex.EncodeToString(key)
}

func kvText(kv *mvccpb.KeyValue) string {
	return fmt.Sprintf("%d,%d,%d,%d,%d,%d", len(kv.Value), crc32.ChecksumIEEE(kv.Value), kv.CreateRevision, kv.ModRevision,
		kv.Version, kv.Lease)
}

// One batch a revision, as the checker knows them; a response may hold many.
func note(w *watch, r clientv3.WatchResponse) {
	mu.Lock()
	defer mu.Unlock()
	if r.Created {
		creates++
		return
	}
	w.member = r.Header.MemberId
	if len(r.Events) == 0 && !r.Canceled {
		fmt.Fprintf(record, "B %d P %d 0 0 1 %d %d %d %d\n", w.number, r.Header.Revision, us(), r.Header.Revision, r.Header.MemberId,
			r.Header.ClusterId)
		w.place = r.Header.Revision
	}
	for i := 0; i < len(r.Events); {
		n := i
		rev := r.Events[i].Kv.ModRevision
		for n < len(r.Events) && r.Events[n].Kv.ModRevision == rev {
			n++
		}
		fmt.Fprintf(record, "B %d C %d %d 0 1 %d %d %d %d\n", w.number, rev, n-i, us(), r.Header.Revision, r.Header.MemberId,
			r.Header.ClusterId)
		for ; i < n; i++ {
			noteEvent(r.Events[i])
		}
		w.rev, w.place = rev, rev
	}
	w.events += len(r.Events)
	if r.Canceled || r.Err() != nil {
		name := "BELFRY_ERR_REFUSED"
		if r.CompactRevision != 0 {
			name = "BELFRY_ERR_COMPACTED"
		}
		fmt.Fprintf(record, "X %d %d %s %d %d %v\n", w.number, us(), name, r.CompactRevision, w.rev, r.Err())
		w.state, w.err = "ended", fmt.Sprint(r.Err())
	}
}

func noteEvent(e *clientv3.Event) {
	op, prev := "P", "-"
	if e.Type == mvccpb.DELETE {
		op = "D"
	}
	if e.PrevKv != nil {
		prev = kvText(e.PrevKv)
	}
	fmt.Fprintf(record, "E %s %s %d %d %d %d %d %d %s -\n", op, keyText(e.Kv.Key), len(e.Kv.Value), crc32.ChecksumIEEE(e.Kv.Value),
		e.Kv.CreateRevision, e.Kv.ModRevision, e.Kv.Version, e.Kv.Lease, prev)
}

func fromHex(text string) string {
	if text == "-" {
		return ""
	}
	raw, err := hex.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func open(ctx context.Context, c *clientv3.Client, words []string) string {
	number, _ := strconv.ParseInt(words[1], 10, 64)
	key, end := fromHex(words[3]), fromHex(words[4])
	opts := []clientv3.OpOption{clientv3.WithCreatedNotify()}
	switch words[2] {
	case "prefix":
		opts = append(opts, clientv3.WithPrefix())
	case "from":
		opts = append(opts, clientv3.WithFromKey())
	case "interval":
		opts = append(opts, clientv3.WithRange(end))
	}
	for _, word := range words[5:] {
		name, value, _ := strings.Cut(word, "=")
		switch {
		case name == "rev":
			rev, _ := strconv.ParseInt(value, 10, 64)
			opts = append(opts, clientv3.WithRev(rev))
		case value != "true":
		case name == "prev-kv":
			opts = append(opts, clientv3.WithPrevKV())
		case name == "progress-notify":
			opts = append(opts, clientv3.WithProgressNotify())
		case name == "no-put":
			opts = append(opts, clientv3.WithFilterPut())
		case name == "no-delete":
			opts = append(opts, clientv3.WithFilterDelete())
		case name == "fragment":
			opts = append(opts, clientv3.WithFragment())
		}
	}
	w := &watch{number: number, state: "open", err: "BELFRY_OK"}
	mu.Lock()
	watches[number] = w
	fmt.Fprintf(record, "O %d %d\n", number, us())
	mu.Unlock()
	responses := c.Watch(ctx, key, opts...)
	go func() {
		for r := range responses {
			note(w, r)
		}
		mu.Lock()
		w.state = "ended"
		mu.Unlock()
	}()
	return "ok"
}

func status() string {
	mu.Lock()
	defer mu.Unlock()
	numbers := []int64{}
	for n := range watches {
		numbers = append(numbers, n)
	}
	sort.Slice(numbers, func(i, j int) bool { return numbers[i] < numbers[j] })
	text := "ok"
	for _, n := range numbers {
		w := watches[n]
		text += fmt.Sprintf(" %d:%s:%d:%d:%d:%d:%s", n, w.state, w.rev, w.events, w.place, w.member, strings.ReplaceAll(strings.ReplaceAll(w.err, " ", "_"), ":", "_"))
	}
	return text
}

func main() {
	options := map[string]string{}
	for _, word := range os.Args[3:] {
		name, value, _ := strings.Cut(word, "=")
		options[name] = value
	}
	config := clientv3.Config{Endpoints: strings.Split(os.Args[1], ","), DialTimeout: 30 * time.Second,
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 6 * time.Second,
		Username: options["user"], Password: options["password"]}
	if options["cacert"] != "" {
		tls, err := (&transport.TLSInfo{TrustedCAFile: options["cacert"], CertFile: options["cert"], KeyFile: options["key"]}).ClientConfig()
		if err != nil {
			fmt.Println("no", err)
			os.Exit(1)
		}
		config.TLS = tls
	}
	client, err := clientv3.New(config)
	if err != nil {
		fmt.Println("no", err)
		os.Exit(1)
	}
	file, err := os.Create(os.Args[2])
	if err != nil {
		fmt.Println("no", err)
		os.Exit(1)
	}
	record = bufio.NewWriterSize(file, 1<<20)
	ctx := context.Background()
	if options["hasleader"] == "true" {
		ctx = clientv3.WithRequireLeader(ctx)
	}
	fmt.Println("ok")
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 1<<20)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch words[0] {
		case "watch":
			fmt.Println(open(ctx, client, words))
		case "progress":
			if err := client.RequestProgress(ctx); err != nil {
				fmt.Println("no", err)
			} else {
				fmt.Println("ok")
			}
		case "status":
			fmt.Println(status())
		case "stats":
			mu.Lock()
			fmt.Printf("ok creates=%d\n", creates)
			mu.Unlock()
		case "quit":
			mu.Lock()
			record.Flush()
			file.Close()
			os.Exit(0)
		default:
			fmt.Println("no such command:", words[0])
		}
	}
}

// kubeinformer: informers of client-go, unmodified, on one server, and what they were given.
//
//	kubeinformer -server URL -resource GROUP/VERSION/PLURAL [-namespace NS] [-labels SEL] [-fields SEL] [-count N]
//	             [-token TOKEN] [-cacert FILE] [-mapped]
//
// Commands on stdin, one a line: status, dump, quit, and add {"namespace":..,"labels":..,"fields":..,"count":..} for
// informers with other selectors. Answers on stdout, one JSON object a line:
//
//	{"kind":"synced","informer":0}                     unasked, once for each
//	{"kind":"status","informers":[{...}]}              answers status
//	{"kind":"store","informer":0,"objects":{"ns/name":["RV","HASH"]}}, ..., {"kind":"dumped"}
//	{"kind":"added","count":N}                         answers add
//
// Every event is judged before the informer sees it: ADDED of what was there, MODIFIED or DELETED of what was not, and
// revisions that do not rise are "wrong". That is what a server owes to a watcher with a selector. A watch from a version
// may begin with changes of just that version once more: one of several objects may have been cut off between them.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
)

const (
	initialEnd = "k8s.io/initial-events-end"
	wrongMax   = 20 // texts kept of each informer: one is a failure already
)

type spec struct {
	Namespace string `json:"namespace"`
	Labels    string `json:"labels"`
	Fields    string `json:"fields"`
	Count     int    `json:"count"`
}

type numbers struct {
	Synced    bool     `json:"synced"`
	Lists     int      `json:"lists"`   // whole ones, however many pages; watch-lists too
	Watches   int      `json:"watches"` // that were answered
	Failed    int      `json:"failed"`  // lists and watches that were not
	Errors    []string `json:"errors"`  // ERROR events, by reason
	Bookmarks int      `json:"bookmarks"`
	Added     int      `json:"added"` // by the informer to its handlers
	Updated   int      `json:"updated"`
	Deleted   int      `json:"deleted"`
	Wrong     []string `json:"wrong"`
	NWrong    int      `json:"nWrong"`
	RV        string   `json:"rv"`
	Objects   int      `json:"objects"`
}

type informer struct {
	spec   spec
	client dynamic.ResourceInterface
	shared cache.SharedIndexInformer
	hashes map[*unstructured.Unstructured]string // of the last dump

	mu      sync.Mutex // guards what follows
	n       numbers
	present map[string]uint64 // key -> RV, as the server has said
	pending map[string]uint64 // of a list that is not complete
	last    uint64            // newest RV: nothing may be older
}

var (
	out       sync.Mutex // a line at a time
	informers []*informer
)

func say(v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	out.Lock()
	defer out.Unlock()
	os.Stdout.Write(append(text, '\n'))
}

func keyAndRV(object runtime.Object) (string, uint64) {
	m, err := meta.Accessor(object)
	if err != nil {
		return "", 0
	}
	rv, _ := strconv.ParseUint(m.GetResourceVersion(), 10, 64)
	return m.GetNamespace() + "/" + m.GetName(), rv
}

func (i *informer) wrong(format string, args ...any) {
	i.n.NWrong++
	if len(i.n.Wrong) < wrongMax {
		i.n.Wrong = append(i.n.Wrong, fmt.Sprintf(format, args...))
	}
}

func (i *informer) list(options metav1.ListOptions) (runtime.Object, error) {
	options.LabelSelector, options.FieldSelector = i.spec.Labels, i.spec.Fields
	got, err := i.client.List(context.Background(), options)
	i.mu.Lock()
	defer i.mu.Unlock()
	if err != nil {
		i.n.Failed++
		return nil, err
	}
	if options.Continue == "" {
		i.pending = map[string]uint64{}
	}
	for at := range got.Items {
		key, rv := keyAndRV(&got.Items[at])
		i.pending[key] = rv
	}
	if got.GetContinue() == "" {
		i.present, i.pending = i.pending, nil
		i.last, _ = strconv.ParseUint(got.GetResourceVersion(), 10, 64)
		i.n.Lists++
	}
	return got, nil
}

func (i *informer) watch(options metav1.ListOptions) (watch.Interface, error) {
	options.LabelSelector, options.FieldSelector = i.spec.Labels, i.spec.Fields
	got, err := i.client.Watch(context.Background(), options)
	i.mu.Lock()
	defer i.mu.Unlock()
	if err != nil {
		i.n.Failed++
		return nil, err
	}
	i.n.Watches++
	initial := options.SendInitialEvents != nil && *options.SendInitialEvents
	from, _ := strconv.ParseUint(options.ResourceVersion, 10, 64)
	if initial {
		i.pending = map[string]uint64{}
	}
	return watch.Filter(got, func(e watch.Event) (watch.Event, bool) {
		i.mu.Lock()
		defer i.mu.Unlock()
		if initial {
			initial = i.judgeInitial(e)
		} else {
			i.judge(e, from)
		}
		return e, true
	}), nil
}

// The state before live events: false when it was the last of it.
func (i *informer) judgeInitial(e watch.Event) bool {
	key, rv := keyAndRV(e.Object)
	switch e.Type {
	case watch.Added:
		i.pending[key] = rv
	case watch.Bookmark:
		m, _ := meta.Accessor(e.Object)
		if m.GetAnnotations()[initialEnd] == "true" {
			i.present, i.pending, i.last = i.pending, nil, rv
			i.n.Lists++
			return false
		}
	case watch.Error:
		i.noteError(e)
	default:
		i.wrong("%s of %s at %d in the initial state", e.Type, key, rv)
	}
	return true
}

// `from`: the version that the watch began at; 0: none.
func (i *informer) judge(e watch.Event, from uint64) {
	if e.Type == watch.Error {
		i.noteError(e)
		return
	}
	key, rv := keyAndRV(e.Object)
	if rv < i.last {
		i.wrong("%s of %s at %d after %d", e.Type, key, rv, i.last)
	}
	i.last = rv
	before, there := i.present[key]
	again := rv == from && (!there || rv == before)
	switch e.Type {
	case watch.Bookmark:
		i.n.Bookmarks++
	case watch.Added:
		if there && !again {
			i.wrong("ADDED of %s at %d, which is there since %d", key, rv, before)
		}
		i.present[key] = rv
	case watch.Modified:
		if !there || (rv <= before && !again) {
			i.wrong("MODIFIED of %s at %d, known at %d", key, rv, before)
		}
		i.present[key] = rv
	case watch.Deleted:
		if (!there && !again) || (there && rv <= before) {
			i.wrong("DELETED of %s at %d, known at %d", key, rv, before)
		}
		delete(i.present, key)
	}
}

func (i *informer) noteError(e watch.Event) {
	text := fmt.Sprintf("%T", e.Object)
	if status, ok := e.Object.(*metav1.Status); ok {
		text = string(status.Reason)
	}
	i.n.Errors = append(i.n.Errors, text)
}

// What is compared with etcd: the object as it is, without what a server adds or, in lists, may leave out.
func hash(object *unstructured.Unstructured) string {
	bare := object.DeepCopy().Object
	delete(bare, "kind")
	delete(bare, "apiVersion")
	if m, ok := bare["metadata"].(map[string]any); ok {
		delete(m, "resourceVersion")
		delete(m, "managedFields")
		if m["creationTimestamp"] == nil {
			delete(m, "creationTimestamp")
		}
	}
	if status, ok := bare["status"].(map[string]any); ok && len(status) == 0 {
		delete(bare, "status")
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text) // keys in order
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(bare); err != nil {
		return err.Error()
	}
	sum := sha256.Sum256(bytes.TrimRight(text.Bytes(), "\n"))
	return hex.EncodeToString(sum[:8])
}

func (i *informer) run(number int) {
	lw := &cache.ListWatch{ListFunc: i.list, WatchFunc: i.watch}
	i.shared = cache.NewSharedIndexInformer(lw, &unstructured.Unstructured{}, 0, cache.Indexers{})
	count := func(n *int) {
		i.mu.Lock()
		*n++
		i.mu.Unlock()
	}
	registered, err := i.shared.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { count(&i.n.Added) },
		UpdateFunc: func(any, any) { count(&i.n.Updated) },
		DeleteFunc: func(any) { count(&i.n.Deleted) },
	})
	if err != nil {
		panic(err)
	}
	go i.shared.Run(make(chan struct{}))
	go func() {
		for !registered.HasSynced() {
			time.Sleep(10 * time.Millisecond)
		}
		i.mu.Lock()
		i.n.Synced = true
		i.mu.Unlock()
		say(map[string]any{"kind": "synced", "informer": number})
	}()
}

// From what was noted here: an informer's own locks are held for long when hundreds of them want the same two cores.
func (i *informer) status() numbers {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.n.RV, i.n.Objects = strconv.FormatUint(i.last, 10), len(i.present)
	n := i.n
	n.Errors, n.Wrong = append([]string{}, n.Errors...), append([]string{}, n.Wrong...)
	return n
}

func (i *informer) dump(number int) {
	objects, hashes := map[string][2]string{}, map[*unstructured.Unstructured]string{}
	for _, item := range i.shared.GetStore().List() {
		object := item.(*unstructured.Unstructured)
		text, known := i.hashes[object] // a store's objects are never changed, only replaced
		if !known {
			text = hash(object)
		}
		hashes[object] = text
		key, _ := keyAndRV(object)
		objects[key] = [2]string{object.GetResourceVersion(), text}
	}
	i.hashes = hashes
	say(map[string]any{"kind": "store", "informer": number, "objects": objects})
}

func add(client dynamic.NamespaceableResourceInterface, s spec) {
	for n := 0; n < s.Count; n++ {
		i := &informer{spec: s, client: client, present: map[string]uint64{}}
		if s.Namespace != "" {
			i.client = client.Namespace(s.Namespace)
		}
		informers = append(informers, i)
		i.run(len(informers) - 1)
	}
}

func command(client dynamic.NamespaceableResourceInterface, line string) bool {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "status":
		all := []numbers{}
		for _, i := range informers {
			all = append(all, i.status())
		}
		say(map[string]any{"kind": "status", "informers": all})
	case "dump":
		for number, i := range informers {
			i.dump(number)
		}
		say(map[string]any{"kind": "dumped"})
	case "add":
		s := spec{Count: 1}
		if err := json.Unmarshal([]byte(rest), &s); err != nil {
			say(map[string]any{"kind": "error", "message": err.Error()})
			return true
		}
		add(client, s)
		say(map[string]any{"kind": "added", "count": len(informers)})
	case "quit":
		return false
	default:
		say(map[string]any{"kind": "error", "message": "no such command: " + word})
	}
	return true
}

// The resource of that name among all that discovery shows.
func discovered(config *rest.Config, plural string) (schema.GroupVersionResource, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	groups, err := restmapper.GetAPIGroupResources(client)
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	return restmapper.NewDiscoveryRESTMapper(groups).ResourceFor(schema.GroupVersionResource{Resource: plural})
}

func main() {
	var s spec
	server := flag.String("server", "http://127.0.0.1:23790", "URL")
	resource := flag.String("resource", "", "GROUP/VERSION/PLURAL")
	flag.StringVar(&s.Namespace, "namespace", "", "all of them when empty")
	flag.StringVar(&s.Labels, "labels", "", "label selector")
	flag.StringVar(&s.Fields, "fields", "", "field selector")
	flag.IntVar(&s.Count, "count", 1, "informers, each with a watch of its own")
	token := flag.String("token", "", "bearer token")
	cacert := flag.String("cacert", "", "the authority of an https server's certificate")
	mapped := flag.Bool("mapped", false, "the resource is looked for by discovery first, as controllers do")
	flag.Parse()
	parts := strings.Split(*resource, "/")
	if len(parts) != 3 {
		fmt.Fprintln(os.Stderr, "kubeinformer: -resource is GROUP/VERSION/PLURAL")
		os.Exit(2)
	}
	config := &rest.Config{Host: *server, BearerToken: *token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAFile: *cacert}}
	all, err := dynamic.NewForConfig(config)
	gvr := schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
	if err == nil && *mapped {
		gvr, err = discovered(config, parts[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubeinformer:", err)
		os.Exit(1)
	}
	client := all.Resource(gvr)
	add(client, s)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() && command(client, lines.Text()) {
	}
}

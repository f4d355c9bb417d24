// gostore: one shared informer of client-go, unmodified, on one resource, and what its store takes in memory.
//
//	gostore -server URL -resource GROUP/VERSION/PLURAL
//
// When it is synced it collects garbage, prints one JSON object and ends:
//
//	{"objects":N,"heapBytes":N,"rssAnonBytes":N,"rssAnonBeforeBytes":N}
//
// The objects are unstructured, as with every client that has no Go types for them. rssAnon is read before and after
// the list as it stands, with the garbage that the list has made given back first.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func rssAnon() int64 {
	file, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) > 1 && words[0] == "RssAnon:" {
			kib, _ := strconv.ParseInt(words[1], 10, 64)
			return kib * 1024
		}
	}
	return 0
}

func main() {
	server := flag.String("server", "http://127.0.0.1:23790", "URL")
	resource := flag.String("resource", "", "GROUP/VERSION/PLURAL")
	flag.Parse()
	parts := strings.Split(*resource, "/")
	if len(parts) != 3 {
		fmt.Fprintln(os.Stderr, "gostore: -resource is GROUP/VERSION/PLURAL")
		os.Exit(2)
	}
	client, err := dynamic.NewForConfig(&rest.Config{Host: *server, QPS: -1})
	if err != nil {
		fmt.Fprintln(os.Stderr, "gostore:", err)
		os.Exit(1)
	}
	before := rssAnon()
	of := client.Resource(schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]})
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListFunc: func(options metav1.ListOptions) (kruntime.Object, error) {
			return of.List(context.Background(), options)
		},
		WatchFunc: func(options metav1.ListOptions) (watch.Interface, error) {
			return of.Watch(context.Background(), options)
		},
	}, &unstructured.Unstructured{}, 0, cache.Indexers{})
	go informer.Run(make(chan struct{}))
	for !informer.HasSynced() {
		time.Sleep(10 * time.Millisecond)
	}
	debug.FreeOSMemory()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	objects := 0
	for _, item := range informer.GetStore().List() {
		if _, ok := item.(*unstructured.Unstructured); ok {
			objects++
		}
	}
	text, _ := json.Marshal(map[string]int64{"objects": int64(objects), "heapBytes": int64(memory.HeapAlloc),
		"rssAnonBytes": rssAnon(), "rssAnonBeforeBytes": before})
	fmt.Println(string(text))
}

/* bench/objects.c: what Kubernetes objects cost to list and to show to watches, from etcd (a CustomResourceDefinition)
 * and from an API server, whose objects are shown as they are.
 *
 *     objects [N]          CPU of a list of N objects (100,000) of 4 KB, and of an event for 5,000 watches
 *     objects counted [N]  instructions of the same (under callgrind, so the same every time), N 2,000
 *
 * Exit 1: an API server's objects cost more instructions. CPU is the thread's own, and the quickest of ROUNDS; on a
 * busy machine it says little of a few percent.
 */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION ((void)0)
#define CALLGRIND_STOP_INSTRUMENTATION  ((void)0)
#define RUNNING_ON_VALGRIND             false
#endif

#include "base/blob.h"
#include "replica/replica.h"
#include "serve/kube/kube_forms.h"
#include "serve/kube/kube_page.h"
#include "wire/write.h"

#define ROUNDS   5
#define VALUE    4096
#define WATCHES  5000
#define EVENTS   64 /* different ones per round */
#define KEY_ROOM 64
#define PREFIX   "/registry/demo.example.com/widgets/"

enum source { FROM_ETCD, FROM_API, N_SOURCES };
enum figure { LIST_ALL, LIST_METADATA, LIST_SELECTED, EVENT_ALL, EVENT_SELECTED, N_FIGURES };
static const char *const figure_names[] = {
    [LIST_ALL] = "an object of a list",
    [LIST_METADATA] = "an object of a list, its metadata alone",
    [LIST_SELECTED] = "an object of a list that a selector skips",
    [EVENT_ALL] = "an event, all watches",
    [EVENT_SELECTED] = "an event, all watches with a selector",
};
static const char *const figure_words[] = {"all", "metadata", "selected", "event", "event-selected"};

static char scratch[1024];
static size_t n_objects = 100000;

static void must(const char *what, enum belfry_err err)
{
    if (err == BELFRY_OK)
        return;
    fprintf(stderr, "objects: %s: %s\n", what, belfry_errname(err));
    exit(1);
}

static double cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* ---- resources and their objects ---- */

static struct kube_resource *make_resource(enum source source)
{
    static const char manifest[] =
        "{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":{\"name\":"
        "\"widgets.demo.example.com\"},\"spec\":{\"group\":\"demo.example.com\",\"scope\":\"Namespaced\",\"names\":{"
        "\"plural\":\"widgets\",\"singular\":\"widget\",\"kind\":\"Widget\",\"listKind\":\"WidgetList\"},\"versions\":["
        "{\"name\":\"v1\",\"served\":true,\"storage\":true,\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\"}}}]}}";
    struct kube_api_resource of = {.group = "demo.example.com",
                                   .version = "v1",
                                   .plural = "widgets",
                                   .singular = "widget",
                                   .kind = "Widget",
                                   .namespaced = true};
    struct kube_resource *resource;
    char *why = NULL;
    if (source == FROM_API)
        must("resource", kube_resource_of_api(&of, &resource));
    else
        must("manifest",
             kube_resource_read(belfry_bytes_str(manifest), &(struct kube_resource_opts){0}, &resource, &why));
    return resource;
}

static struct belfry_bytes key_of(enum source source, size_t n, char room[KEY_ROOM])
{
    const char *prefix = source == FROM_ETCD ? PREFIX : "";
    return belfry_bytes_of(room, (size_t)snprintf(room, KEY_ROOM, "%sprod/w-%08zu", prefix, n));
}

/* As an API server writes a custom resource, about VALUE bytes: a third of it is managedFields. */
static struct belfry_bytes value_of(size_t n, int64_t rev, char room[VALUE])
{
    size_t used = (size_t)snprintf(
        room, VALUE,
        "{\"apiVersion\":\"demo.example.com/v1\",\"kind\":\"Widget\",\"metadata\":{\"creationTimestamp\":"
        "\"2026-11-17T22:11:56Z\",\"generation\":1,\"labels\":{\"app\":\"web\",\"tier\":\"t%zu\"},\"managedFields\":[{"
        "\"apiVersion\":\"demo.example.com/v1\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{",
        n % 100);
    for (size_t i = 0; used < VALUE / 3; i++)
        used +=
            (size_t)snprintf(room + used, VALUE - used, "%s\"f:field%zu\":{\".\":{},\"f:a\":{}}", i == 0 ? "" : ",", i);
    used +=
        (size_t)snprintf(room + used, VALUE - used,
                         "},\"manager\":\"unknown\",\"operation\":\"Update\"}],\"name\":\"w-%08zu\",\"namespace\":"
                         "\"prod\",\"resourceVersion\":\"%lld\",\"uid\":\"15dec1e1-c4d2-422b-81d7-%012zu\"},\"spec\":{",
                         n, (long long)rev, n);
    for (size_t i = 0; used < VALUE - 100; i++)
        used += (size_t)snprintf(room + used, VALUE - used, "\"field%zu\":{\"a\":%zu,\"b\":\"some text here\"},", i, n);
    used += (size_t)snprintf(room + used, VALUE - used, "\"last\":true}}");
    return belfry_bytes_of(room, used);
}

/* The bytes are in a buffer that the next call takes. */
static struct belfry_wire_event event_of(enum source source, size_t n, int64_t rev)
{
    static uint8_t bytes[2 * VALUE];
    static char value[VALUE], key[KEY_ROOM];
    struct belfry_wire_event scanned, event = {.kv = {.key = key_of(source, n, key),
                                                      .value = value_of(n, rev, value),
                                                      .create_rev = 2,
                                                      .mod_rev = rev,
                                                      .version = 1}};
    size_t len = (size_t)(belfry_write_event(&event, bytes) - bytes);
    must("event", belfry_scan_event(belfry_bytes_of(bytes, len), &scanned));
    return scanned;
}

static struct kube_selector *select_tier(const struct kube_resource *resource)
{
    struct kube_selector *selector;
    struct kube_status status;
    must("selector", kube_selector_read(belfry_bytes_str("tier=none"), belfry_bytes_str(""), resource,
                                        &resource->versions[0], &selector, &status));
    return selector;
}

/* ---- lists ---- */

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

static struct store *open_replica(enum source source)
{
    const char *base = getenv("TMPDIR");
    snprintf(scratch, sizeof(scratch), "%s/belfry-objects-XXXXXX", base != NULL ? base : ".");
    if (mkdtemp(scratch) == NULL) {
        perror(scratch);
        exit(1);
    }
    struct replica_opts opts = {.dir = scratch,
                                .history_bytes = (size_t)1 << 30,
                                .history_age_s = 86400,
                                .map_bytes = (size_t)16 << 30,
                                .extent_bytes = (size_t)16 << 20,
                                .scope = "all"};
    struct belfry_wire_header header = {.cluster_id = 1};
    struct store *store;
    char *why;
    must("open", replica_open(&opts, &store, &why));
    must("fresh", store->api->fresh(store));
    for (size_t i = 0; i < n_objects; i++) {
        struct belfry_wire_event event = event_of(source, i, 2);
        must("put", store->api->put(store, &event.kv));
    }
    must("adopt", store->api->adopt(store, 2, &header, 1));
    return store;
}

static void close_replica(struct store *store)
{
    replica_close(store, REPLICA_CLOSE_DIRTY);
    if (nftw(scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
        fprintf(stderr, "objects: %s is left behind\n", scratch);
}

/* Reads a list to its end. */
static void list_once(struct store *store, struct kube_resource *resource, enum figure figure)
{
    struct kube_page page = {.resource = kube_resource_ref(resource),
                             .version = &resource->versions[0],
                             .selector = figure == LIST_SELECTED ? select_tier(resource) : NULL,
                             .view = figure == LIST_METADATA ? KUBE_VIEW_METADATA : KUBE_VIEW_OBJECT,
                             .limit = SIZE_MAX};
    must("aim", kube_page_aim(&page, belfry_bytes_str(""), belfry_bytes_str("")));
    do {
        kube_page_read(&page, store);
        must("page", page.err);
        belfry_buf_clear(&page.text);
    } while (page.more);
    if (page.n != (figure == LIST_SELECTED ? 0 : n_objects)) {
        fprintf(stderr, "objects: %zu objects were listed\n", page.n);
        exit(1);
    }
    kube_page_fini(&page);
}

static double measure_list(enum source source, enum figure figure)
{
    struct kube_resource *resource = make_resource(source);
    struct store *store = open_replica(source);
    double best = 0;
    for (int i = 0; i < ROUNDS && (i == 0 || !RUNNING_ON_VALGRIND); i++) {
        double start = cpu_ns();
        CALLGRIND_START_INSTRUMENTATION;
        list_once(store, resource, figure);
        CALLGRIND_STOP_INSTRUMENTATION;
        double took = cpu_ns() - start;
        best = best == 0 || took < best ? took : best;
    }
    close_replica(store);
    kube_resource_unref(resource);
    return best / (double)n_objects;
}

/* ---- events ---- */

static struct batch *make_batch(enum source source, int64_t rev)
{
    static uint8_t before[2 * VALUE];
    struct belfry_wire_event event = event_of(source, 7, rev - 1);
    struct batch *batch;
    struct belfry_bytes prev = belfry_bytes_of(before, event.kv.raw.len);
    memcpy(before, event.kv.raw.data, event.kv.raw.len);
    event = event_of(source, 7, rev);
    must("batch", batch_create(rev, BATCH_EVENTS, 1, batch_event_bytes(&event, prev), &batch));
    batch_add(batch, &event, prev);
    return batch;
}

/* What kube_watch does with an event, for every watch. */
static void show_to_watches(struct kube_forms *forms, const struct kube_lens *lens, const struct batch *batch,
                            const struct kube_selector *selector)
{
    enum kube_forms_need need = selector != NULL ? KUBE_NEED_ATTRIBUTES : KUBE_NEED_TEXT;
    for (size_t i = 0; i < WATCHES; i++) {
        const struct kube_change *change;
        struct kube_line line = {.view = KUBE_VIEW_OBJECT};
        struct belfry_blob *blob;
        bool told;
        must("change", kube_forms_change(forms, lens, batch, 0, need, &change));
        must("told", kube_change_told(change, selector, false, &told, &line.event));
        if (!told)
            continue;
        must("line", kube_forms_line(forms, lens, change, &line, &blob));
        belfry_blob_unref(blob);
    }
    kube_forms_next_turn(forms);
}

static double measure_event(enum source source, enum figure figure)
{
    struct kube_resource *resource = make_resource(source);
    struct kube_selector *selector = figure == EVENT_SELECTED ? select_tier(resource) : NULL;
    const struct kube_lens *lens;
    struct kube_forms *forms;
    double best = 0;
    must("forms", kube_forms_create(KUBE_FORMS_BYTES, 1, &forms));
    must("lens", kube_lens_open(forms, resource, &resource->versions[0], &lens));
    for (int64_t i = 0; i < EVENTS; i++) {
        struct batch *batch = make_batch(source, 10 + i);
        double start = cpu_ns();
        CALLGRIND_START_INSTRUMENTATION;
        show_to_watches(forms, lens, batch, selector);
        CALLGRIND_STOP_INSTRUMENTATION;
        double took = cpu_ns() - start;
        best = best == 0 || took < best ? took : best;
        batch_unref(batch);
    }
    kube_lens_close(forms, lens);
    kube_forms_destroy(forms);
    kube_selector_unref(selector);
    kube_resource_unref(resource);
    return best;
}

static double measure(enum source source, enum figure figure)
{
    return figure < EVENT_ALL ? measure_list(source, figure) : measure_event(source, figure);
}

/* ---- instructions ---- */

static double count(enum source source, enum figure figure)
{
    char self[1024], command[2048], line[512];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    double n = 0;
    if (len < 0)
        return 0;
    self[len] = '\0';
    snprintf(command, sizeof(command),
             "valgrind --tool=callgrind --instr-atstart=no --callgrind-out-file=/dev/null '%s' one %d %s %zu 2>&1",
             self, source, figure_words[figure], n_objects);
    FILE *pipe = popen(command, "r");
    while (pipe != NULL && fgets(line, sizeof(line), pipe) != NULL) {
        const char *at = strstr(line, "Collected :");
        n = at == NULL ? n : strtod(at + strlen("Collected :"), NULL);
    }
    if (pipe == NULL || pclose(pipe) != 0 || n == 0) {
        fprintf(stderr, "objects: not measured: is valgrind installed?\n");
        exit(1);
    }
    return n / (double)(figure < EVENT_ALL ? n_objects : EVENTS);
}

/* True: an API server's cost more. */
static bool report(double (*figure_of)(enum source source, enum figure figure), const char *unit)
{
    bool missed = false;
    printf("%-44s %14s %14s\n", unit, "etcd's", "API server's");
    for (enum figure figure = 0; figure < N_FIGURES; figure++) {
        double etcd = figure_of(FROM_ETCD, figure), api = figure_of(FROM_API, figure);
        printf("%-44s %14.0f %14.0f%s\n", figure_names[figure], etcd, api, api > etcd ? "  MORE" : "");
        fflush(stdout);
        missed = missed || api > etcd;
    }
    return missed;
}

int main(int argc, char **argv)
{
    bool is_counted = argc > 1 && strcmp(argv[1], "counted") == 0;
    if (argc == 5 && strcmp(argv[1], "one") == 0) {
        n_objects = strtoul(argv[4], NULL, 10);
        for (enum figure figure = 0; figure < N_FIGURES; figure++)
            if (strcmp(argv[3], figure_words[figure]) == 0)
                (void)measure((enum source)atoi(argv[2]), figure);
        return 0;
    }
    if (is_counted)
        n_objects = 2000;
    if (argc > (is_counted ? 2 : 1))
        n_objects = strtoul(argv[is_counted ? 2 : 1], NULL, 10);
    if (is_counted)
        return report(count, "instructions") ? 1 : 0;
    (void)report(measure, "CPU, ns");
    return 0;
}

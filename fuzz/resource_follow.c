/* fuzz/resource_follow.c: the follower of a resource against servers that say anything in any order.
 *
 * The input is a list of steps of three bytes: what comes, with which version, of which object. The requests in
 * progress are those that the machine wants. Whatever comes: versions in the log ascend, no more than one watch, one
 * list and one probe are in progress, and nothing is left when it ends.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/check.h"
#include "kfollow/resource_follow.h"
#include "support/modelstore.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
    struct store *store;
    struct evlog *evlog;
    struct ingest *ingest;
    struct resource_follow *follow;
    uint64_t now, watch, list, probe; /* ids; 0: none */
    uint64_t past;
    int64_t at;
} f;

static void start(void)
{
    bool warm;
    struct evlog_opts log = {.capacity_log2 = 6, .max_bytes = 1 << 16, .n_workers = 1};
    check(evlog_create(&log, &f.evlog) == BELFRY_OK);
    struct ingest_opts ingest = {.store = f.store, .evlog = f.evlog, .trim_rows = 4};
    check(ingest_create(&ingest, &f.ingest) == BELFRY_OK);
    check(ingest_open(f.ingest, &warm) == BELFRY_OK);
    struct resource_follow_opts opts = {
        .ingest = f.ingest, .store = f.store, .warm = warm, .n_servers = 2, .watch_s = 2, .seed = 1};
    check(resource_follow_create(&opts, f.now, &f.follow) == BELFRY_OK);
    f.watch = f.list = f.probe = f.past = 0;
}

static void end(void)
{
    resource_follow_destroy(f.follow);
    ingest_destroy(f.ingest);
    evlog_destroy(f.evlog);
}

static void open_request(uint64_t *id, uint64_t wanted)
{
    check(*id == 0 && wanted != 0);
    *id = wanted;
}

static void act(void)
{
    struct resource_action action;
    while (resource_next(f.follow, f.now, &action)) {
        switch (action.want) {
        case RESOURCE_WANT_WATCH:
            check(action.rv > 0 || action.is_initial);
            open_request(&f.watch, action.id);
            break;
        case RESOURCE_WANT_LIST:
            open_request(&f.list, action.id);
            break;
        case RESOURCE_WANT_PROBE:
            open_request(&f.probe, action.id);
            break;
        case RESOURCE_WANT_CANCEL:
            f.watch = f.watch == action.id ? 0 : f.watch;
            f.list = f.list == action.id ? 0 : f.list;
            f.probe = f.probe == action.id ? 0 : f.probe;
            break;
        case RESOURCE_WANT_VERSIONS: /* nobody asks for a proof */
        case RESOURCE_WANT_ANSWER:
            check(false);
            break;
        case RESOURCE_WANT_RESUME:
            check(action.id == f.watch && f.watch != 0);
            break;
        }
    }
}

static void look(void)
{
    struct evlog_view view;
    evlog_enter(f.evlog, 0, &view);
    if (view.cut.past != f.past) {
        f.past = view.cut.past;
        f.at = view.cut.rev;
    }
    for (uint64_t seq = evlog_find(&view, f.at + 1); seq < view.next; seq++) {
        check(evlog_at(&view, seq)->rev > f.at);
        f.at = evlog_at(&view, seq)->rev;
    }
    check(view.head == ingest_head(f.ingest) || f.past == 0);
    evlog_leave(f.evlog, 0);
}

static void end_request(uint64_t *id, enum resource_end how)
{
    uint64_t ended = *id;
    *id = 0;
    resource_on_end(f.follow, ended, how, f.now);
}

static void list_ends(uint64_t *id, int64_t rv, uint64_t link)
{
    uint64_t ended = *id;
    *id = 0;
    resource_on_listed(f.follow, ended, rv, link, f.now);
}

static void step(uint8_t what, uint8_t version, uint8_t which)
{
    static const char *const keys[] = {"a/a", "a/b", "b/a", "c"}, *const uids[] = {"1", "2", "", "1111"};
    int64_t rv = 1 + version;
    struct resource_object object = {.key = belfry_bytes_str(keys[which & 3]),
                                     .uid = belfry_bytes_str(uids[which >> 2 & 3]),
                                     .json = belfry_bytes_str(uids[which >> 4 & 3]),
                                     .rv = rv};
    switch (what % 12) {
    case 0:
    case 1:
    case 2:
        belfry_ignore(resource_on_event(f.follow, f.watch, (enum resource_change)(what % 12), &object, f.now));
        break;
    case 3:
        if (which & 128)
            resource_on_initial_end(f.follow, f.watch, rv, f.now);
        else
            belfry_ignore(resource_on_bookmark(f.follow, f.watch, rv, f.now));
        break;
    case 4:
        resource_on_item(f.follow, f.list, &object, 1 + (which & 2), f.now);
        break;
    case 5:
        list_ends(&f.list, rv, 1 + (which & 2));
        break;
    case 6:
        list_ends(&f.probe, rv, 1 + (which & 2));
        break;
    case 7:
        resource_on_opened(f.follow, f.watch, 1 + (which & 2), f.now);
        break;
    case 8:
        end_request(which & 4 ? &f.list : which & 8 ? &f.probe : &f.watch, (enum resource_end)(which % 3));
        break;
    case 9:
        f.now += (uint64_t)version << (which & 7);
        resource_tick(f.follow, f.now);
        break;
    case 10:
        modelstore_fail(f.store, which & 3);
        resource_drained(f.follow, f.now);
        break;
    case 11:
        end();
        modelstore_crash(f.store);
        start();
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct modelstore_opts opts = {.history_rows = 20, .history_age_s = 1000, .extent_bytes = 1 << 16};
    memset(&f, 0, sizeof(f));
    f.now = 1000;
    f.store = modelstore_create(&opts);
    start();
    act();
    for (size_t i = 0; i + 2 < size && i < 3000; i += 3) {
        step(data[i], data[i + 1], data[i + 2]);
        act();
        look();
    }
    end();
    modelstore_destroy(f.store);
    return 0;
}

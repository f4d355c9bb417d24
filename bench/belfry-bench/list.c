/* bench/belfry-bench/list.c: one list of all the objects that are there, and what it costs the server. Memory is
 * sampled while it lasts: RssAnon, because pages of a mapped file are the kernel's to take back, and beside it the peak
 * of all resident pages as the kernel has it. */
#include "h1get.h"
#include "modes.h"
#include "object.h"
#include "proc.h"
#include "stopwatch.h"

#define SAMPLE_NS ((uint64_t)2 * NS_PER_MS)

struct listing {
    pid_t pid;
    struct object_count objects;
    uint64_t body_bytes;
    uint64_t began_ns, first_ns; /* first_ns: of the body; 0: not yet */
    uint64_t sampled_ns, most_anon;
};

static void on_body(void *user, struct belfry_bytes piece)
{
    struct listing *listing = user;
    if (listing->first_ns == 0)
        listing->first_ns = stopwatch_ns();
    listing->body_bytes += piece.len;
    object_count(&listing->objects, piece);
}

static void on_tick(void *user)
{
    struct listing *listing = user;
    uint64_t now = stopwatch_ns();
    if (listing->pid == 0 || now - listing->sampled_ns < SAMPLE_NS)
        return;
    uint64_t anon = proc_use(listing->pid).anon_bytes;
    listing->most_anon = anon > listing->most_anon ? anon : listing->most_anon;
    listing->sampled_ns = now;
}

static double grown(uint64_t before, uint64_t after)
{
    return (double)after - (double)before;
}

int list_run(const struct plan *plan)
{
    struct listing listing = {.pid = plan->pid};
    proc_restart_peak(plan->pid);
    struct proc_use before = proc_use(plan->pid);
    listing.began_ns = stopwatch_ns();
    const struct h1get_opts opts = {.target = &plan->target,
                                    .path = OBJECT_PATH,
                                    .body = on_body,
                                    .tick = on_tick,
                                    .user = &listing,
                                    .deadline_ns = plan->deadline_ns};
    h1get(&opts);
    uint64_t ended_ns = stopwatch_ns();
    struct proc_use after = proc_use(plan->pid);

    struct report report = {0};
    report_text(&report, "mode", plan->mode);
    report_number(&report, "objects", (double)listing.objects.n);
    report_number(&report, "list_bytes", (double)listing.body_bytes);
    report_number(&report, "first_byte_ms", (double)(listing.first_ns - listing.began_ns) / NS_PER_MS);
    report_number(&report, "list_ms", (double)(ended_ns - listing.began_ns) / NS_PER_MS);
    report_number(&report, "server_cpu_ms", (after.cpu_s - before.cpu_s) * 1e3);
    report_number(&report, "memory_before_bytes", (double)before.anon_bytes);
    report_number(
        &report, "memory_more_bytes",
        grown(before.anon_bytes, listing.most_anon > after.anon_bytes ? listing.most_anon : after.anon_bytes));
    report_number(&report, "rss_more_bytes", grown(before.rss_bytes, after.peak_bytes));
    report_print(&report, plan->form, stdout);
    return 0;
}

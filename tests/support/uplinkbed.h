/* tests/support/uplinkbed.h: an uplink on a loop of its own, to one or two of support/fakeupstream on loopback.
 * Included by the suites that need it, after cmocka. */
#ifndef BELFRY_TESTS_UPLINKBED_H
#define BELFRY_TESTS_UPLINKBED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "net/loop.h"
#include "serve/uplink/uplink.h"
#include "support/fakeupstream.h"
#include "support/refuse.h"

#define SOON_MS 10000

static struct bed {
    struct upstream *members[2];
    struct belfry_loop *loop;
    struct belfry_dns *dns;
    struct belfry_endpoint *endpoints;
    struct uplink *uplink;
    const char *via;  /* of the uplink; NULL: none. Set before make(), as are: */
    const char *base; /* NULL: none */
    bool is_kube;
    struct belfry_tls *tls; /* lent; NULL: plain */
    uint32_t full_ms;       /* this and the next: 0: as usual */
    size_t max_conns;
    bool over; /* what callbacks would write to is gone with the test's stack */
} bed;

static inline void turn(void)
{
    for (int i = 0; i < 2; i++) {
        if (bed.members[i] != NULL)
            upstream_turn(bed.members[i]);
    }
    belfry_ignore(belfry_loop_wait(bed.loop, 1));
    assert_int_equal(belfry_loop_dispatch(bed.loop), BELFRY_OK);
}

#define drive_until(condition)                                                                                         \
    do {                                                                                                               \
        uint64_t end_ = belfry_clock_ms() + SOON_MS;                                                                   \
        while (!(condition) && belfry_clock_ms() < end_)                                                               \
            turn();                                                                                                    \
        assert_true(condition);                                                                                        \
    } while (0)

static inline void drive_for(uint64_t ms)
{
    uint64_t end = belfry_clock_ms() + ms;
    while (belfry_clock_ms() < end)
        turn();
}

static inline enum belfry_err open_bed(void)
{
    char list[200], why[200];
    snprintf(list, sizeof(list), "%s%s%s", upstream_url(bed.members[0]), bed.members[1] != NULL ? "," : "",
             bed.members[1] != NULL ? upstream_url(bed.members[1]) : "");
    size_t n;
    enum belfry_err err = belfry_endpoint_parse_list(list, &bed.endpoints, &n, why, sizeof(why));
    if (err == BELFRY_OK)
        err = belfry_loop_create(&bed.loop);
    if (err == BELFRY_OK)
        err = belfry_dns_create(belfry_loop_uv(bed.loop), &bed.dns);
    if (err != BELFRY_OK)
        return err;
    struct uplink_opts opts = {.loop = belfry_loop_uv(bed.loop),
                               .dns = bed.dns,
                               .endpoints = bed.endpoints,
                               .n_endpoints = n,
                               .tls = bed.tls,
                               .dial_timeout_ms = 2000,
                               .via = bed.via,
                               .base = bed.base,
                               .is_kube = bed.is_kube,
                               .full_ms = bed.full_ms,
                               .max_conns = bed.max_conns,
                               .seed = 1};
    return uplink_create(&opts, &bed.uplink);
}

static inline void make(const struct upstream_opts *opts, int n)
{
    for (int i = 0; i < n; i++)
        bed.members[i] = upstream_create(opts);
    assert_int_equal(open_bed(), BELFRY_OK);
}

static inline void close_bed(void)
{
    bed.over = true;
    uplink_destroy(bed.uplink);
    belfry_dns_destroy(bed.dns);
    belfry_loop_destroy(bed.loop);
    free(bed.endpoints);
    for (int i = 0; i < 2; i++)
        upstream_destroy(bed.members[i]);
    memset(&bed, 0, sizeof(bed));
}

static inline struct uplink_stats stats(void)
{
    struct uplink_stats out;
    uplink_stats(bed.uplink, &out);
    return out;
}

#endif

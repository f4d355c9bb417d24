/* src/client/link.c */
#include "client/link.h"

static const struct belfry_pool_words words = {
    .up = "link_up", .lost = "link_lost", .failed = "link_failed", .again = BELFRY_LOG_INFO};

enum belfry_err belfry_link_create(const struct belfry_pool_opts *opts, const struct belfry_pool_events *events,
                                   void *user, struct belfry_pool **out)
{
    struct belfry_pool_opts link = *opts;
    link.nonsense = "it does not speak HTTP/2 as gRPC needs it";
    link.words = &words;
    link.one_at_a_time = true;
    link.wait_ms = BELFRY_POOL_FOREVER;
    return belfry_pool_create(&link, events, user, out);
}

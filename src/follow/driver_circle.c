/* src/follow/driver_circle.c: endpoints that lead back to us, or too far.
 *
 * It is found out in two ways: a request comes back refused, with the names of the tiers it went through (serve/uplink/via.h); or
 * we are among those of whom the tier above says that they are above it. Such an endpoint is barred: nobody asks it for
 * anything until the next start. When all are, following is given up.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "follow/driver_private.h"

/* ---- barring ---- */

/* Does `text` begin with that URL, as a whole? */
static bool begins_with_url(const char *text, const char *url)
{
    size_t len = strlen(url);
    return strncmp(text, url, len) == 0 && (text[len] == '\0' || strncmp(text + len, ": ", 2) == 0);
}

/* It is a mistake in somebody's configuration, so it is told as an error, once. An endpoint may be listed twice. */
static void bar(struct driver *driver, const char *endpoint, const char *why)
{
    size_t n_barred = 0;
    const char *news = NULL;
    for (size_t i = 0; i < driver->n_endpoints; i++) {
        const char *url = driver->endpoints[i].url;
        if (!driver->barred[i] && begins_with_url(endpoint, url)) {
            driver->barred[i] = true;
            driver->identity.barred |= belfry_identity_bit(i);
            news = url;
        }
        n_barred += driver->barred[i];
    }
    if (news == NULL)
        return;
    belfry_logf(driver->log, BELFRY_LOG_ERROR, "upstream_circle", "why=\"%s\" endpoint=%s", why, news);
    if (n_barred == driver->n_endpoints)
        snprintf(driver->given_up, sizeof(driver->given_up), "%s", why);
    driver->poked = true;
}

void driver_mind_refusal(struct driver *driver, const char *endpoint, const char *why)
{
    const char *found = strstr(why, DRIVER_CIRCLE);
    if (found == NULL)
        found = strstr(why, DRIVER_TOO_MANY);
    if (found != NULL)
        bar(driver, endpoint, found);
}

void driver_leave_barred(struct driver *driver)
{
    static const char why[] = "tiers in a circle, or too many in a row";
    struct belfry_stream *streams[] = {driver->live, driver->back};
    for (size_t i = 0; i < 2; i++) {
        struct belfry_link *link = belfry_stream_link(streams[i]);
        if (!driver->barred[belfry_link_index(link)] || belfry_link_conn(link) == NULL)
            continue;
        belfry_stream_leave(streams[i], BELFRY_ERR_REFUSED, why);
        belfry_link_leave(link, BELFRY_ERR_REFUSED, why); /* when no stream was open on it */
    }
    struct belfry_link *calls = belfry_calls_link(driver->calls);
    if (driver->barred[belfry_link_index(calls)])
        belfry_link_leave(calls, BELFRY_ERR_REFUSED, why);
}

uint64_t driver_barred(const struct driver *driver)
{
    uint64_t mask = 0;
    for (size_t i = 0; i < driver->n_endpoints; i++) {
        size_t given = (driver->first_endpoint + i) % driver->n_endpoints;
        if (driver->barred[i] && given < 64)
            mask |= UINT64_C(1) << given;
    }
    return mask;
}

/* ---- those above ---- */

struct chain {
    const char *why; /* what is wrong with it; NULL: nothing */
    size_t len;
    char text[DRIVER_GIVEN_UP];
};

__attribute__((format(printf, 2, 3))) static void chain_say(struct chain *chain, const char *format, ...)
{
    va_list args;
    if (chain->len >= sizeof(chain->text))
        return;
    va_start(args, format);
    int n = vsnprintf(chain->text + chain->len, sizeof(chain->text) - chain->len, format, args);
    va_end(args);
    chain->len += n > 0 ? (size_t)n : 0;
}

/* We, those above us, and whether that can be. What is older than our connection to them was true of another time, when
 * we may have been somewhere else: a circle that is there now shows again in a second. */
static void judge_chain(const struct driver *driver, struct chain *chain)
{
    const struct about *them = &driver->about.them;
    uint64_t since_ms = belfry_clock_ms() - driver->about.since_ms;
    *chain = (struct chain){.why = strcmp(them->self.name, driver->name) == 0 ? DRIVER_CIRCLE : NULL};
    chain_say(chain, "%s > %s", driver->name, them->self.name);
    for (size_t i = 0, tiers = 1; i < them->n_above && chain->why == NULL; i++) {
        const struct about_level *level = &them->above[i];
        if (!about_is_tier(level) || level->age_ms > since_ms)
            return;
        chain_say(chain, " > %s", level->name);
        if (strcmp(level->name, driver->name) == 0)
            chain->why = DRIVER_CIRCLE;
        else if (++tiers == DRIVER_TIERS)
            chain->why = DRIVER_TOO_MANY;
    }
}

/* A request that is relayed all the way would find it out too, but tiers that are warm may keep each other alive without
 * one. */
void driver_look_for_circle(struct driver *driver)
{
    char why[DRIVER_GIVEN_UP];
    struct chain chain;
    if (driver->name[0] == '\0')
        return;
    judge_chain(driver, &chain);
    if (chain.why == NULL)
        return;
    snprintf(why, sizeof(why), "%s%.*s; %s", chain.why, (int)sizeof(why) - 200, chain.text,
             strcmp(chain.why, DRIVER_CIRCLE) == 0 ? DRIVER_CIRCLE_REMEDY : DRIVER_TOO_MANY_REMEDY);
    bar(driver, driver->endpoints[driver->about.asked_at].url, why);
}

/* src/follow/circle.c */
#include "follow/circle.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum belfry_err circle_init(struct circle *circle, const char *name, const struct belfry_endpoint *endpoints,
                            size_t n_endpoints, const struct belfry_log *log)
{
    bool *barred = calloc(n_endpoints, sizeof(*barred));
    if (barred == NULL)
        return BELFRY_ERR_NOMEM;
    *circle =
        (struct circle){.name = name, .endpoints = endpoints, .n_endpoints = n_endpoints, .log = log, .barred = barred};
    return BELFRY_OK;
}

void circle_fini(struct circle *circle)
{
    free(circle->barred);
}

/* Does `text` begin with that URL, as a whole? */
static bool begins_with_url(const char *text, const char *url)
{
    size_t len = strlen(url);
    return strncmp(text, url, len) == 0 && (text[len] == '\0' || strncmp(text + len, ": ", 2) == 0);
}

/* A circle is a mistake in a configuration, so it is logged as an error, once. An endpoint may be listed twice. */
static bool circle_bar(struct circle *circle, const char *endpoint, const char *why)
{
    size_t n_barred = 0;
    const char *news = NULL;
    for (size_t i = 0; i < circle->n_endpoints; i++) {
        const char *url = circle->endpoints[i].url;
        if (!circle->barred[i] && begins_with_url(endpoint, url)) {
            circle->barred[i] = true;
            news = url;
        }
        n_barred += circle->barred[i];
    }
    if (news == NULL)
        return false;
    belfry_logf(circle->log, BELFRY_LOG_ERROR, "upstream_circle", "why=\"%s\" endpoint=%s", why, news);
    if (n_barred == circle->n_endpoints)
        snprintf(circle->given_up, sizeof(circle->given_up), "%s", why);
    return true;
}

bool circle_refused(struct circle *circle, const char *endpoint, const char *why)
{
    const char *found = strstr(why, CIRCLE_REFUSAL);
    if (found == NULL)
        found = strstr(why, CIRCLE_TOO_MANY);
    return found != NULL && circle_bar(circle, endpoint, found);
}

/* ---- reports of the tier above ---- */

struct chain {
    const char *why; /* what is wrong with it; NULL: nothing */
    size_t len;
    char text[CIRCLE_WHY];
};

__attribute__((format(printf, 2, 3))) static void chain_add(struct chain *chain, const char *format, ...)
{
    va_list args;
    if (chain->len >= sizeof(chain->text))
        return;
    va_start(args, format);
    int n = vsnprintf(chain->text + chain->len, sizeof(chain->text) - chain->len, format, args);
    va_end(args);
    chain->len += n > 0 ? (size_t)n : 0;
}

/* Judges the chain of this tier and the tiers above it. A report from before our connection is ignored: this tier may
 * have been elsewhere then, and a circle that exists now is reported again within a second. */
static void chain_judge(struct chain *chain, const char *name, const struct about *them, uint64_t since_ms)
{
    *chain = (struct chain){.why = strcmp(them->self.name, name) == 0 ? CIRCLE_REFUSAL : NULL};
    chain_add(chain, "%s > %s", name, them->self.name);
    for (size_t i = 0, tiers = 1; i < them->n_above && chain->why == NULL; i++) {
        const struct about_level *level = &them->above[i];
        if (!about_is_tier(level) || level->age_ms > since_ms)
            return;
        chain_add(chain, " > %s", level->name);
        if (strcmp(level->name, name) == 0)
            chain->why = CIRCLE_REFUSAL;
        else if (++tiers == CIRCLE_TIERS)
            chain->why = CIRCLE_TOO_MANY;
    }
}

/* A relayed request would also show the circle, but warm tiers can keep each other alive without relaying any. */
bool circle_reported(struct circle *circle, const char *endpoint, const struct about *them, uint64_t since_ms)
{
    char why[CIRCLE_WHY];
    struct chain chain;
    if (circle->name[0] == '\0')
        return false;
    chain_judge(&chain, circle->name, them, since_ms);
    if (chain.why == NULL)
        return false;
    snprintf(why, sizeof(why), "%s%.*s; %s", chain.why, (int)sizeof(why) - 200, chain.text,
             strcmp(chain.why, CIRCLE_REFUSAL) == 0 ? CIRCLE_REMEDY : CIRCLE_TOO_MANY_REMEDY);
    return circle_bar(circle, endpoint, why);
}

/* src/serve/sse/tickets.c */
#include "serve/sse/tickets.h"

void tickets_init(struct tickets *tickets)
{
    *tickets = (struct tickets){.keys = {.n = 0}};
    pthread_mutex_init(&tickets->mu, NULL);
}

void tickets_fini(struct tickets *tickets)
{
    pthread_mutex_destroy(&tickets->mu);
    ticket_keys_wipe(&tickets->keys);
}

bool tickets_set(struct tickets *tickets, const struct ticket_keys *keys, int64_t life_s)
{
    pthread_mutex_lock(&tickets->mu);
    bool changed = !ticket_keys_equal(&tickets->keys, keys);
    ticket_keys_wipe(&tickets->keys);
    tickets->keys = *keys;
    tickets->life_s = life_s;
    pthread_mutex_unlock(&tickets->mu);
    return changed;
}

static struct ticket_keys keys_in_force(struct tickets *tickets, int64_t *life_s)
{
    pthread_mutex_lock(&tickets->mu);
    struct ticket_keys keys = tickets->keys;
    *life_s = tickets->life_s;
    pthread_mutex_unlock(&tickets->mu);
    return keys;
}

bool tickets_has_keys(struct tickets *tickets)
{
    pthread_mutex_lock(&tickets->mu);
    bool has_keys = tickets->keys.n > 0;
    pthread_mutex_unlock(&tickets->mu);
    return has_keys;
}

enum belfry_err tickets_seal(struct tickets *tickets, const struct identity *who, int64_t born_s, int64_t now_s,
                             struct belfry_buf *out, int64_t *out_expires_s)
{
    struct ticket_order order = {.who = who, .born_s = born_s, .now_s = now_s};
    struct ticket_keys keys = keys_in_force(tickets, &order.life_s);
    enum belfry_err err = ticket_seal(&keys, &order, out, out_expires_s);
    ticket_keys_wipe(&keys);
    return err;
}

enum belfry_err tickets_open(struct tickets *tickets, struct belfry_bytes text, int64_t now_s, struct ticket *out)
{
    int64_t life_s;
    struct ticket_keys keys = keys_in_force(tickets, &life_s);
    enum belfry_err err = ticket_open(&keys, text, now_s, out);
    ticket_keys_wipe(&keys);
    return err;
}

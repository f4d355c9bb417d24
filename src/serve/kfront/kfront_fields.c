/* src/serve/kfront/kfront_fields.c */
#include "serve/kfront/kfront_fields.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COSTS                                                                                                          \
    "the tier does not know this field of it, at this version of the API server: each such watch is one at the API "   \
    "server, and each such list is answered there"

struct kfront_fields {
    const struct belfry_log *log; /* fixed at creation */
    pthread_mutex_t mu;
    struct kfront_field rows[KFRONT_FIELDS_MAX + 1]; /* under mu, as the next */
    size_t n;
};

enum belfry_err kfront_fields_create(const struct belfry_log *log, struct kfront_fields **out)
{
    struct kfront_fields *fields = calloc(1, sizeof(*fields));
    if (fields == NULL)
        return BELFRY_ERR_NOMEM;
    fields->log = log;
    pthread_mutex_init(&fields->mu, NULL);
    *out = fields;
    return BELFRY_OK;
}

void kfront_fields_destroy(struct kfront_fields *fields)
{
    if (fields == NULL)
        return;
    pthread_mutex_destroy(&fields->mu);
    free(fields);
}

/* The row that counts it. *is_new: it was made for it. */
static struct kfront_field *fields_row(struct kfront_fields *fields, const struct kfront_field *of, bool *is_new)
{
    *is_new = false;
    for (size_t i = 0; i < fields->n; i++)
        if (strcmp(fields->rows[i].name, of->name) == 0 && strcmp(fields->rows[i].resource, of->resource) == 0)
            return &fields->rows[i];
    struct kfront_field *row = &fields->rows[fields->n < KFRONT_FIELDS_MAX ? fields->n : KFRONT_FIELDS_MAX];
    if (fields->n > KFRONT_FIELDS_MAX)
        return row;
    *row = *of;
    if (fields->n == KFRONT_FIELDS_MAX)
        *row = (struct kfront_field){.resource = "other", .name = "other"};
    fields->n++;
    *is_new = true;
    return row;
}

void kfront_fields_note(struct kfront_fields *fields, const struct kube_resource *resource, const char *name)
{
    struct kfront_field of = {.requests = 0};
    bool is_new;
    snprintf(of.resource, sizeof(of.resource), "%s%s%s", resource->plural, resource->group[0] != '\0' ? "." : "",
             resource->group);
    for (size_t i = 0; name[i] != '\0' && i < sizeof(of.name) - 1; i++)
        of.name[i] = name[i] > ' ' && name[i] <= '~' && name[i] != '"' && name[i] != '\\' ? name[i] : '?';
    pthread_mutex_lock(&fields->mu);
    struct kfront_field *row = fields_row(fields, &of, &is_new);
    row->requests++;
    of = *row;
    pthread_mutex_unlock(&fields->mu);
    if (is_new)
        belfry_logf(fields->log, BELFRY_LOG_WARN, "selector_relayed", "resource=%s field=%s why=\"%s\"", of.resource,
                    of.name, COSTS);
}

size_t kfront_fields_look(struct kfront_fields *fields, struct kfront_field out[KFRONT_FIELDS_MAX + 1])
{
    pthread_mutex_lock(&fields->mu);
    size_t n = fields->n;
    memcpy(out, fields->rows, n * sizeof(*out));
    pthread_mutex_unlock(&fields->mu);
    return n;
}

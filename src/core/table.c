/* src/core/table.c */
#include "core/table.h"

#include <stdbool.h>
#include <stdlib.h>

#define FIRST ((size_t)1 << TABLE_FIRST_LOG2)

void table_init(struct table *table)
{
    *table = (struct table){0};
}

void table_fini(struct table *table)
{
    for (size_t i = 0; i < TABLE_SEGMENTS; i++)
        free(table->segments[i]);
    table_init(table);
}

/* The largest power of two that is not above n; n is not 0. */
static size_t floor_power(size_t n)
{
    return (size_t)1 << (63 - __builtin_clzll((unsigned long long)n));
}

static size_t segment_of(size_t bucket)
{
    return bucket < FIRST ? 0 : (size_t)(64 - __builtin_clzll((unsigned long long)bucket)) - TABLE_FIRST_LOG2;
}

static size_t segment_size(size_t segment)
{
    return segment == 0 ? FIRST : FIRST << (segment - 1);
}

static struct table_link **bucket_at(const struct table *table, size_t bucket)
{
    size_t segment = segment_of(bucket);
    return &table->segments[segment][segment == 0 ? bucket : bucket - segment_size(segment)];
}

static struct table_link **bucket_of(struct table *table, uint64_t hash)
{
    if (table->n_buckets == 0)
        return &table->one;
    size_t power = floor_power(table->n_buckets);
    size_t bucket = hash & (2 * power - 1);
    return bucket_at(table, bucket < table->n_buckets ? bucket : bucket - power);
}

/* Makes room for bucket number n_buckets. */
static struct table_link **segment_for_next(struct table *table)
{
    struct table_link ***segment = &table->segments[segment_of(table->n_buckets)];
    if (*segment == NULL)
        *segment = calloc(segment_size(segment_of(table->n_buckets)), sizeof(**segment));
    return *segment;
}

static void bucket_push(struct table_link **bucket, struct table_link *link)
{
    link->next = *bucket;
    *bucket = link;
}

static bool split_bucket(struct table *table)
{
    if (segment_for_next(table) == NULL)
        return false;
    size_t added = table->n_buckets++;
    struct table_link **from = added == 0 ? &table->one : bucket_at(table, added - floor_power(added));
    struct table_link *link = *from;
    *from = NULL;
    while (link != NULL) {
        struct table_link *next = link->next;
        bucket_push(bucket_of(table, link->hash), link);
        link = next;
    }
    return true;
}

static void join_buckets(struct table *table)
{
    size_t gone = --table->n_buckets;
    struct table_link *link = *bucket_at(table, gone);
    *bucket_at(table, gone) = NULL;
    while (link != NULL) {
        struct table_link *next = link->next;
        bucket_push(bucket_of(table, link->hash), link);
        link = next;
    }
    if (gone == floor_power(gone) && gone >= FIRST) { /* the first of its segment */
        free(table->segments[segment_of(gone)]);
        table->segments[segment_of(gone)] = NULL;
    }
}

void table_add(struct table *table, uint64_t hash, struct table_link *link)
{
    link->hash = hash;
    bucket_push(bucket_of(table, hash), link);
    table->count++;
    bool grown = true;
    for (int i = 0; grown && i < 2 && table->n_buckets < table->count; i++) /* two: to catch up when memory was short */
        grown = split_bucket(table);
}

void table_remove(struct table *table, struct table_link *link)
{
    struct table_link **at = bucket_of(table, link->hash);
    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    link->next = NULL;
    table->count--;
    for (int i = 0; i < 2 && table->n_buckets > FIRST && table->n_buckets > 2 * table->count; i++)
        join_buckets(table);
}

static struct table_link *same_hash(struct table_link *link, uint64_t hash)
{
    while (link != NULL && link->hash != hash)
        link = link->next;
    return link;
}

struct table_link *table_first(const struct table *table, uint64_t hash)
{
    if (table->n_buckets == 0)
        return same_hash(table->one, hash);
    size_t power = floor_power(table->n_buckets);
    size_t bucket = hash & (2 * power - 1);
    return same_hash(*bucket_at(table, bucket < table->n_buckets ? bucket : bucket - power), hash);
}

struct table_link *table_next(const struct table_link *link)
{
    return same_hash(link->next, link->hash);
}

size_t table_bytes(const struct table *table)
{
    size_t bytes = 0;
    for (size_t i = 0; i < TABLE_SEGMENTS && table->segments[i] != NULL; i++)
        bytes += segment_size(i) * sizeof(*table->segments[i]);
    return bytes;
}

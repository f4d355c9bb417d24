/* fuzz/watchers_query.c: any bytes as the query of /debug/watchers and of /debug/clients. What is accepted is within
 * its bounds, and a refusal has a sentence. */
#include <stdint.h>
#include <string.h>

#include "fuzz/check.h"
#include "serve/admin/clients.h"
#include "serve/admin/watchers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_clients(struct belfry_bytes bytes)
{
    struct clients_query query;
    char why[64] = "";
    if (clients_parse(bytes, &query, why, sizeof(why)) != BELFRY_OK)
        check(why[0] != '\0' && memchr(why, '\0', sizeof(why)) != NULL);
    else
        check(query.limit >= 1 && query.limit <= CLIENTS_KEPT && query.sort <= CLIENTS_BY_CONNECTIONS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct watchers_query query;
    char why[64] = "";
    try_clients(belfry_bytes_of(data, size));
    if (watchers_parse(belfry_bytes_of(data, size), &query, why, sizeof(why)) != BELFRY_OK) {
        check(why[0] != '\0' && memchr(why, '\0', sizeof(why)) != NULL);
        return 0;
    }
    check(query.limit >= 1 && query.limit <= WATCHERS_LIMIT_MAX);
    check(query.sort <= WATCHERS_BY_AGE && query.group <= WATCHERS_GROUP_STATE);
    check(memchr(query.filter, '\0', sizeof(query.filter)) != NULL);
    return 0;
}

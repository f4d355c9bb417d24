/* fuzz/resource_find.c: documents of an API server's discovery, one a line after the resource's name and each answer's
 * status. The search ends, what it found fits, and its paths can be sent. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kfollow/resource_find.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_path(const char *path)
{
    if (path[0] != '/' || strlen(path) >= RESOURCE_FIND_PATH)
        abort();
    for (const char *c = path; *c != '\0'; c++)
        if (*c <= ' ' || (unsigned char)*c > '~' || *c == '%' || *c == '?' || *c == '#')
            abort();
}

static void check_facts(const struct resource_facts *facts)
{
    if (facts->kind[0] == '\0' || strlen(facts->kind) > RESOURCE_LABEL_MAX ||
        strlen(facts->singular) > RESOURCE_LABEL_MAX || strlen(facts->version) > RESOURCE_LABEL_MAX)
        abort();
    if (facts->selectable.n_fields > RESOURCE_FIND_FIELDS)
        abort();
    for (unsigned i = 0; i < facts->selectable.n_fields; i++)
        if (memchr(facts->selectable.fields[i], '\0', RESOURCE_FIND_FIELD) == NULL)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"pods", "widgets.demo.example.com", "widgets.v1.demo.example.com"};
    struct resource_find find;
    struct resource_name name;
    if (size < 1 || !resource_name_read(names[data[0] % 3], &name))
        return 0;
    bool is_custom = data[0] % 3 != 0;
    resource_find_init(&find, &name, is_custom);
    const uint8_t *at = data + 1, *end = data + size;
    for (unsigned n = 0; find.state == RESOURCE_FIND_ASKING && at < end; n++) {
        if (n > RESOURCE_FIND_VERSIONS + 3) /* the group, its versions, the server's version, the definition */
            abort();
        check_path(resource_find_path(&find));
        int status = *at++ == 'n' ? 404 : 200;
        const uint8_t *line = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((line != NULL ? line : end) - at);
        char *copy = malloc(len > 0 ? len : 1); /* exactly the bytes: a look beyond them is found */
        if (copy == NULL)
            return 0;
        memcpy(copy, at, len);
        resource_find_take(&find, status, belfry_bytes_of(copy, len));
        free(copy);
        at += len + (line != NULL);
    }
    if (find.state == RESOURCE_FIND_FOUND)
        check_facts(&find.facts);
    return 0;
}

/* src/serve/kfront/krelay_head.c */
#include "serve/kfront/krelay_head.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "serve/rights/identity.h"

#define FORWARDED "x-forwarded-for"

static bool is_name(struct belfry_bytes name, const char *word)
{
    return belfry_bytes_equal(name, belfry_bytes_str(word));
}

static bool begins_with(struct belfry_bytes name, const char *prefix)
{
    size_t len = strlen(prefix);
    return name.len >= len && memcmp(name.data, prefix, len) == 0;
}

static bool is_credential(struct belfry_bytes name)
{
    return is_name(name, "authorization") || begins_with(name, "impersonate-");
}

/* Is it in the list "a, B ,c"? Names are in lower case, lists in any. */
static bool lists(struct belfry_bytes list, struct belfry_bytes name)
{
    while (list.len > 0) {
        const char *comma = memchr(list.data, ',', list.len);
        size_t len = comma != NULL ? (size_t)(comma - list.data) : list.len;
        const char *word = list.data;
        size_t taken = comma != NULL ? len + 1 : len;
        list = belfry_bytes_of(list.data + taken, list.len - taken);
        while (len > 0 && (*word == ' ' || *word == '\t')) {
            word++;
            len--;
        }
        while (len > 0 && (word[len - 1] == ' ' || word[len - 1] == '\t'))
            len--;
        if (len == name.len && strncasecmp(word, name.data, len) == 0)
            return true;
    }
    return false;
}

static bool is_named_by_connection(const struct exchange_head *head, struct belfry_bytes name)
{
    for (size_t i = 0; i < head->n_fields; i++)
        if (is_name(head->fields[i].name, "connection") && lists(head->fields[i].value, name))
            return true;
    return false;
}

static bool goes_up(const struct exchange_head *head, const struct belfry_http_field *field)
{
    struct belfry_bytes name = field->name;
    if (fields_is_hop(name, field->value) || fields_is_of_browser(name) || is_name(name, "expect") ||
        is_name(name, IDENTITY_USER_FIELD) || is_name(name, FORWARDED) || begins_with(name, "x-remote-"))
        return false;
    return is_credential(name) || !is_named_by_connection(head, name);
}

/* False: it has no address that others can use. */
static bool write_address(const struct client_address *client, char out[INET6_ADDRSTRLEN])
{
    int family = client->family == CLIENT_IPV4 ? AF_INET : AF_INET6;
    return (client->family == CLIENT_IPV4 || client->family == CLIENT_IPV6) &&
           inet_ntop(family, client->bytes, out, INET6_ADDRSTRLEN) != NULL;
}

static enum belfry_err append_forwarded(struct belfry_buf *list, struct belfry_bytes address)
{
    enum belfry_err err = belfry_buf_len(list) > 0 ? belfry_buf_append(list, ", ", 2) : BELFRY_OK;
    return err == BELFRY_OK ? belfry_buf_append(list, address.data, address.len) : err;
}

static enum belfry_err add_forwarded(const struct exchange_head *head, const struct client_address *client,
                                     struct fields *out)
{
    struct belfry_buf list;
    char address[INET6_ADDRSTRLEN];
    enum belfry_err err = BELFRY_OK;
    belfry_buf_init(&list);
    for (size_t i = 0; i < head->n_fields && err == BELFRY_OK; i++)
        if (is_name(head->fields[i].name, FORWARDED) && head->fields[i].value.len > 0)
            err = append_forwarded(&list, head->fields[i].value);
    if (err == BELFRY_OK && write_address(client, address))
        err = append_forwarded(&list, belfry_bytes_str(address));
    if (err == BELFRY_OK && belfry_buf_len(&list) > 0)
        err = fields_add(out, belfry_bytes_str(FORWARDED), belfry_buf_bytes(&list));
    belfry_buf_fini(&list);
    return err;
}

enum belfry_err krelay_head_take(const struct exchange_head *head, const char *without,
                                 const struct client_address *client, struct fields *out)
{
    enum belfry_err err = BELFRY_OK;
    for (size_t i = 0; i < head->n_fields && err == BELFRY_OK; i++)
        if (goes_up(head, &head->fields[i]) && (without == NULL || !is_name(head->fields[i].name, without)))
            err = fields_add(out, head->fields[i].name, head->fields[i].value);
    return err == BELFRY_OK ? add_forwarded(head, client, out) : err;
}

bool krelay_head_returns(struct belfry_bytes name, struct belfry_bytes value)
{
    return is_name(name, ":status") || !fields_is_hop(name, value);
}

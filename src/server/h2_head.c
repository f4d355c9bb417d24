/* src/server/h2_head.c */
#include "server/h2_head.h"

void h2_head_clear(struct h2_head *head)
{
    fields_fini(&head->fields);
    head->bytes = 0;
    head->is_open = false;
}

enum belfry_err h2_head_add(struct h2_head *head, struct belfry_bytes name, struct belfry_bytes value)
{
    head->bytes += name.len + value.len + H2_HEAD_OVERHEAD;
    if (h2_head_is_too_large(head)) {
        fields_fini(&head->fields);
        return BELFRY_OK;
    }
    return fields_add(&head->fields, name, value);
}

/* fuzz/row.c: any bytes as a row of the replica's history, as a damaged disk would give them.
 *
 * Nothing outside of the row may be named; what is accepted, written again, reads the same.
 */
#include <stdint.h>
#include <stdlib.h>

#include "fuzz/check.h"
#include "replica/rowform.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool inside(struct belfry_bytes part, struct belfry_bytes whole)
{
    return part.len == 0 || (part.data >= whole.data && part.len <= whole.len &&
                             (size_t)(part.data - whole.data) <= whole.len - part.len);
}

static void check_again(const struct rowform_event *row)
{
    size_t size = rowform_event_size(row);
    uint8_t *bytes = malloc(size);
    struct rowform_event again;
    check(bytes != NULL);
    rowform_event_write(row, bytes);
    check(rowform_event_read(rowform_val(belfry_bytes_of(bytes, size)), &again));
    check(belfry_bytes_equal(row->event, again.event) && belfry_bytes_equal(row->key, again.key));
    check(belfry_bytes_equal(row->prev, again.prev) && row->is_delete == again.is_delete);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct belfry_bytes whole = belfry_bytes_of(data, size), key;
    struct rowform_event row;
    if (rowform_event_read(rowform_val(whole), &row)) {
        check(inside(row.event, whole) && inside(row.key, row.event) && inside(row.prev, whole));
        check_again(&row);
    }
    uint8_t stored[ROWFORM_KEY_MAX + ROWFORM_HASH] = {0};
    size_t len = size < sizeof(stored) ? size : sizeof(stored);
    if (rowform_key_of(rowform_val(belfry_bytes_of(stored, len)), rowform_val(whole), &key))
        check(inside(key, whole) || key.len == len);
    return 0;
}

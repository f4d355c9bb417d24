/* fuzz/kapi_failure.c: any bytes as the body of an error, as the object of an ERROR event, and as Retry-After.
 *
 * The first two bytes are the HTTP status. Whatever comes: there is an error, a sentence that is UTF-8 without control
 * characters, and a wait of an hour at most.
 */
#include <stdint.h>

#include "base/utf8.h"
#include "fuzz/check.h"
#include "kapi/failure.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_printable(const char *text, size_t cap)
{
    check(memchr(text, '\0', cap) != NULL);
    struct belfry_bytes rest = belfry_bytes_str(text);
    for (size_t n; rest.len > 0; rest = belfry_bytes_of(rest.data + n, rest.len - n)) {
        uint32_t ignored;
        n = belfry_utf8_next(rest.data, rest.len, &ignored);
        check(n > 0 && (unsigned char)rest.data[0] >= ' ' && rest.data[0] != 0x7f);
        check(n != 2 || (unsigned char)rest.data[0] != 0xC2 || (unsigned char)rest.data[1] >= 0xA0);
    }
}

static void check_failure(const struct belfry_failure *failure)
{
    check(failure->err != BELFRY_OK && failure->err != BELFRY_ERR_NOMEM && failure->why[0] != '\0');
    check_printable(failure->why, sizeof(failure->why));
    check_printable(failure->reason, sizeof(failure->reason));
    check(failure->retry_after_ms >= -1 && failure->retry_after_ms <= 3600 * 1000);
    check(!failure->expired || failure->err == BELFRY_ERR_COMPACTED);
    check(!failure->too_large || failure->expired || failure->err == BELFRY_ERR_FUTURE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct belfry_failure failure, again;
    if (size < 2)
        return 0;
    int status = 100 + (data[0] << 8 | data[1]) % 500;
    struct belfry_bytes text = belfry_bytes_of(data + 2, size - 2);
    belfry_failure_of_answer(&failure, status, belfry_bytes_of("", 0), text);
    check_failure(&failure);
    check(failure.code == status);
    belfry_failure_of_answer(&again, status, text, text);
    check_failure(&again);
    check(strcmp(failure.why, again.why) == 0 && failure.err == again.err);
    belfry_failure_of_status(&failure, text);
    check_failure(&failure);
    belfry_failure_set(&again, BELFRY_ERR_PROTOCOL, "%.*s|", (int)text.len, text.data);
    check_failure(&again);
    return 0;
}

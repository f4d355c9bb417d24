/* fuzz/hosts.c: any bytes as the Host of a request. Without configured names only addresses and localhost are allowed,
 * so whatever has a letter beyond f in it is localhost or refused; more names never allow less. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "fuzz/check.h"
#include "server/hosts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_beyond_f(uint8_t byte)
{
    uint8_t small = byte | 0x20;
    return small >= 'g' && small <= 'z';
}

/* No address has such a letter. */
static bool is_word(struct belfry_bytes text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (is_beyond_f((uint8_t)text.data[i]))
            return true;
    }
    return false;
}

static bool begins_with_localhost(struct belfry_bytes text)
{
    static const char local[] = "localhost";
    size_t at = text.data[0] == '[';
    return text.len >= at + sizeof(local) - 1 && strncasecmp(text.data + at, local, sizeof(local) - 1) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char one[] = "tier.example", star[] = "*";
    static char *const names[] = {one}, *const every[] = {star};
    static struct hosts none = {.mu = PTHREAD_MUTEX_INITIALIZER},
                        some = {"http://[fd00::1]:23790", PTHREAD_MUTEX_INITIALIZER, names, 1},
                        all = {.mu = PTHREAD_MUTEX_INITIALIZER, .names = every, .n_names = 1};
    struct belfry_bytes host = belfry_bytes_of(data, size);
    check(hosts_allow(&all, host));
    if (!hosts_allow(&none, host))
        return 0;
    check(hosts_allow(&some, host));
    check(!is_word(host) || begins_with_localhost(host));
    return 0;
}

/* fuzz/cli_txn.c: any bytes as what belfryctl txn reads. A script that is taken whole has as many steps as it says, and
 * every line either is taken or tells why not. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/txn_script.h"
#include "fuzz/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_steps(const struct txn_script *script)
{
    for (int branch = 0; branch < 2; branch++)
        for (size_t i = 0; i < script->steps[branch].n; i++) {
            enum command command = script->steps[branch].list[i].command;
            check(command == CMD_GET || command == CMD_PUT || command == CMD_DEL);
            check(script->steps[branch].list[i].key != NULL);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct txn_script script = {.stage = TXN_CONDITIONS};
    char why[FLAGS_WHY];
    bool taken = true;
    for (size_t at = 0; at < size && taken && script.stage != TXN_DONE;) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        size_t len = end != NULL ? (size_t)(end - data) - at : size - at;
        char *line = strndup((const char *)data + at, len);
        check(line != NULL);
        why[0] = '\0';
        enum belfry_err err = txn_script_line(&script, line, why);
        check(err == BELFRY_OK || err == BELFRY_ERR_INVALID);
        check((err == BELFRY_OK) == (why[0] == '\0') && strlen(why) < FLAGS_WHY);
        taken = err == BELFRY_OK;
        free(line);
        at += len + 1;
    }
    check_steps(&script);
    txn_script_fini(&script);
    return 0;
}

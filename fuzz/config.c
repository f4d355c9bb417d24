/* fuzz/config.c: any bytes as belfryd's configuration file.
 *
 * What is refused says why, in one line. What is accepted is printed, read again and printed again: both must be equal.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "daemon/config_check.h"
#include "daemon/config_file.h"
#include "fuzz/check.h"

#define ROOM (8 * CONFIG_FILE_MAX) /* a character may be printed as ten */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads bytes[0, len) over the defaults; a mistake is written to said[0, 8192). */
static enum belfry_err read_bytes(const char *bytes, size_t len, struct config *config, char *said)
{
    *config = (struct config){0};
    memset(said, 0, 8192);
    FILE *mistakes = fmemopen(said, 8191, "w"), *file = tmpfile();
    check(mistakes != NULL && file != NULL);
    fwrite(bytes, 1, len, file);
    rewind(file);
    struct config_faults faults = {.wants_all = true};
    struct config_draft draft = {.config = config, .faults = &faults, .file = "fuzz.yaml", .err = mistakes};
    enum belfry_err err = config_draft_defaults(&draft);
    if (err == BELFRY_OK)
        err = config_file_read(&draft, file);
    if (err == BELFRY_OK)
        err = config_check(&draft);
    fclose(file);
    fclose(mistakes);
    return err;
}

static size_t print(const struct config *config, char *out)
{
    FILE *file = fmemopen(out, ROOM, "w");
    check(file != NULL);
    config_print(config, file);
    long len = ftell(file);
    fclose(file);
    check(len >= 0 && len < ROOM);
    return (size_t)len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char first[ROOM], again[ROOM], said[8192];
    struct config config;
    setenv("HOME", "/home/someone", 1);
    enum belfry_err err = read_bytes((const char *)data, size, &config, said);
    if (err == BELFRY_ERR_INVALID) { /* a line for each mistake, as far as there is room */
        const char *line = said, *end;
        for (check(*line != '\0'); (end = strchr(line, '\n')) != NULL; line = end + 1)
            check(strncmp(line, "belfryd: ", 9) == 0);
        check(*line == '\0' || strlen(said) >= sizeof(said) - 2);
    }
    if (err == BELFRY_OK) {
        size_t len = print(&config, first);
        config_fini(&config);
        check(read_bytes(first, len, &config, said) == BELFRY_OK);
        check(print(&config, again) == len && memcmp(first, again, len) == 0);
    }
    config_fini(&config);
    return 0;
}

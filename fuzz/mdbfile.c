/* fuzz/mdbfile.c: a replica's file with any of its bytes changed, read as a start reads it (replica/mdbfile,
 * replica/audit).
 *
 *     input   | pages kept, 2 | then any number of | place, 3 | byte, 1 |
 *
 * The file is made once, by LMDB: it has branches, large values and free pages. Nothing outside of the file may be
 * read.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replica/audit.h"
#include "replica/replica.h"
#include "wire/write.h"

#define PAGE   4096
#define N_KEYS 700
#define BIG    9000

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t *whole, *room;
static size_t whole_len;

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void put(struct store *store, unsigned number)
{
    static char value[BIG];
    char key[16];
    uint8_t bytes[BIG + 64];
    struct belfry_wire_event event = {
        .kv = {.key = belfry_bytes_of(key, (size_t)snprintf(key, sizeof(key), "key-%u", number)),
               .value = belfry_bytes_of(value, number % 200 == 0 ? BIG : 30),
               .create_rev = 2,
               .mod_rev = 2,
               .version = 1}};
    size_t len = (size_t)(belfry_write_event(&event, bytes) - bytes);
    must(belfry_scan_event(belfry_bytes_of(bytes, len), &event) == BELFRY_OK);
    must(store->api->put(store, &event.kv) == BELFRY_OK);
}

static void make_replica(const char *dir)
{
    struct replica_opts opts = {
        .dir = dir, .history_bytes = 1 << 20, .map_bytes = 1 << 24, .boot_id = "b", .audit_here = true};
    struct store *store;
    char *why;
    must(replica_open(&opts, &store, &why) == BELFRY_OK);
    must(store->api->fresh(store) == BELFRY_OK);
    for (unsigned i = 0; i < N_KEYS; i++)
        put(store, i);
    must(store->api->adopt(store, 2, &(struct belfry_wire_header){.revision = 2}, 1) == BELFRY_OK);
    replica_close(store, REPLICA_CLOSE_CLEAN);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    char dir[] = "/tmp/belfry-fuzz-XXXXXX", path[64], command[64];
    struct stat st;
    (void)argc;
    (void)argv;
    must(mkdtemp(dir) != NULL);
    make_replica(dir);
    snprintf(path, sizeof(path), "%s/data-2/data.mdb", dir); /* data-1 was the empty one */
    FILE *file = fopen(path, "rb");
    must(file != NULL && stat(path, &st) == 0);
    whole_len = (size_t)st.st_size;
    whole = malloc(whole_len);
    room = malloc(whole_len);
    must(whole != NULL && room != NULL && fread(whole, 1, whole_len, file) == whole_len);
    fclose(file);
    snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    return system(command);
}

static size_t change(const uint8_t *data, size_t size)
{
    size_t len = whole_len, kept = (size_t)data[0] | (size_t)data[1] << 8;
    memcpy(room, whole, whole_len);
    for (size_t i = 2; i + 4 <= size; i += 4) {
        size_t at = (size_t)data[i] | (size_t)data[i + 1] << 8 | (size_t)data[i + 2] << 16;
        room[at % whole_len] = data[i + 3];
    }
    return kept * PAGE < len && kept > 0 ? kept * PAGE : len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[32], why[AUDIT_WHY];
    if (size < 2)
        return 0;
    size_t len = change(data, size);
    int fd = memfd_create("replica", MFD_CLOEXEC);
    must(fd >= 0 && write(fd, room, len) == (ssize_t)len);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    struct audit_opts opts = {.path = path, .depth = AUDIT_ALL, .place = AUDIT_IN_PROCESS, .lock_fd = -1};
    bool passes = audit_passes(&opts, why);
    must(size > 2 || len < whole_len || passes); /* as it was made it is good */
    close(fd);
    return 0;
}

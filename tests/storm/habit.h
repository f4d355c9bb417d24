/* tests/storm/habit.h
 *
 * habit: how a client library speaks HTTP/2: its SETTINGS, the order of its fields, when it gives window back, when it
 * sends PINGs, how it says goodbye. grpc-go 1.64, Python's grpcio 1.51 and grpc-js 1.14 were recorded on their way to
 * etcd. client-go was not recorded: its constants are those of Go's net/http2 and of apimachinery. Times between PINGs
 * are from the sources of each.
 *
 *     library    window given back       measures bandwidth by a PING       other PINGs          goodbye
 *     grpc-go    by quarters             after DATA, one at a time          none; 30 s in        GOAWAY with a
 *                                                                           kube-apiserver       stream of its own
 *     grpcio     all, with each message  after DATA, one in 0.1 s to 10 s   none                 none
 *     grpc-js    by halves               never                              none                 GOAWAY, twice
 *     client-go  by 4 KiB                never                              30 s; with resets    none
 *
 * Heads are packed by nghttp2's HPACK for all of them; grpcio would not use Huffman's code.
 *
 * Thread: any. Constant.
 */
#ifndef BELFRY_STORM_HABIT_H
#define BELFRY_STORM_HABIT_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HABIT_SETTINGS 6
#define HABIT_FIELDS   16

enum habit_return { HABIT_RETURN_QUARTERS, HABIT_RETURN_ALL, HABIT_RETURN_HALVES, HABIT_RETURN_4K };
enum habit_measure { HABIT_MEASURE_NEVER, HABIT_MEASURE_GO, HABIT_MEASURE_CORE };
enum habit_goodbye { HABIT_GOODBYE_NONE, HABIT_GOODBYE_OWN, HABIT_GOODBYE_TWICE };

/* value NULL: it depends on the call, and is left out where the call has none */
struct habit_field {
    const char *name, *value;
};

struct habit {
    const char *name;
    nghttp2_settings_entry settings[HABIT_SETTINGS];
    size_t n_settings;
    uint32_t window;    /* of a stream, at first */
    uint32_t conn_more; /* WINDOW_UPDATE of the connection with the SETTINGS; 0: none */
    enum habit_return returns;
    enum habit_measure measures;
    enum habit_goodbye goodbye;
    uint64_t ping_ms;      /* after so long without a frame; 0: never */
    bool pings_while_idle; /* without a stream, too */
    bool pings_with_reset; /* a PING beside each RST_STREAM */
    bool is_get;           /* its requests have no body */
    const struct habit_field *fields;
};

/* The last is a client of Kubernetes, the others are of etcd. */
enum habit_who { HABIT_GO, HABIT_GO_KEEPALIVE, HABIT_PYTHON, HABIT_NODE, HABIT_CLIENT_GO, HABITS };
const struct habit *habit_of(enum habit_who who);

/* What a request says, for the fields without a value. NULL: nothing. */
struct habit_request {
    const char *scheme, *path, *timeout, *token;
};
size_t habit_head(const struct habit *habit, const struct habit_request *request, nghttp2_nv out[HABIT_FIELDS]);

#endif

/* tests/storm/habit.c */
#include "storm/habit.h"

#include <string.h>

#include "storm/verdict.h"

#define AUTHORITY "localhost"

static const struct habit_field go_fields[] = {{":method", "POST"},
                                               {":scheme", NULL},
                                               {":path", NULL},
                                               {":authority", AUTHORITY},
                                               {"content-type", "application/grpc"},
                                               {"user-agent", "grpc-go/1.64.0"},
                                               {"te", "trailers"},
                                               {"grpc-timeout", NULL},
                                               {"token", NULL},
                                               {"client-api-version", "3.5"},
                                               {NULL, NULL}};

static const struct habit_field python_fields[] = {{":path", NULL},
                                                   {":authority", AUTHORITY},
                                                   {":method", "POST"},
                                                   {":scheme", NULL},
                                                   {"content-type", "application/grpc"},
                                                   {"te", "trailers"},
                                                   {"grpc-accept-encoding", "identity, deflate, gzip"},
                                                   {"grpc-timeout", NULL},
                                                   {"token", NULL},
                                                   {"user-agent", "grpc-python/1.51.1 grpc-c/29.0.0 (linux; chttp2)"},
                                                   {NULL, NULL}};

static const struct habit_field node_fields[] = {{":authority", AUTHORITY},
                                                 {":method", "POST"},
                                                 {":path", NULL},
                                                 {":scheme", NULL},
                                                 {"grpc-accept-encoding", "identity,deflate,gzip"},
                                                 {"accept-encoding", "identity"},
                                                 {"user-agent", "grpc-node-js/1.14.7"},
                                                 {"content-type", "application/grpc"},
                                                 {"te", "trailers"},
                                                 {"token", NULL},
                                                 {NULL, NULL}};

static const struct habit_field client_go_fields[] = {
    {":authority", AUTHORITY},
    {":method", "GET"},
    {":path", NULL},
    {":scheme", NULL},
    {"accept", "application/json, */*"},
    {"authorization", NULL},
    {"user-agent", "informer/v0.0.0 (linux/amd64) kubernetes/$Format"},
    {"accept-encoding", "gzip"},
    {NULL, NULL}};

static const struct habit habits[HABITS] = {
    [HABIT_GO] = {.name = "grpc-go",
                  .window = 65535,
                  .returns = HABIT_RETURN_QUARTERS,
                  .measures = HABIT_MEASURE_GO,
                  .goodbye = HABIT_GOODBYE_OWN,
                  .fields = go_fields},
    [HABIT_GO_KEEPALIVE] = {.name = "grpc-go with keep-alive",
                            .window = 65535,
                            .returns = HABIT_RETURN_QUARTERS,
                            .measures = HABIT_MEASURE_GO,
                            .goodbye = HABIT_GOODBYE_OWN,
                            .ping_ms = 30000,
                            .fields = go_fields},
    [HABIT_PYTHON] = {.name = "grpcio",
                      .settings = {{2, 0}, {3, 0}, {4, 4194303}, {5, 4194303}, {6, 8192}, {0xfe03, 1}},
                      .n_settings = 6,
                      .window = 4194303,
                      .conn_more = 4128768,
                      .returns = HABIT_RETURN_ALL,
                      .measures = HABIT_MEASURE_CORE,
                      .fields = python_fields},
    [HABIT_NODE] = {.name = "grpc-js",
                    .settings = {{4, 65535}},
                    .n_settings = 1,
                    .window = 65535,
                    .returns = HABIT_RETURN_HALVES,
                    .goodbye = HABIT_GOODBYE_TWICE,
                    .fields = node_fields},
    [HABIT_CLIENT_GO] = {.name = "client-go",
                         .settings = {{2, 0}, {4, 4194304}, {6, 10485760}},
                         .n_settings = 3,
                         .window = 4194304,
                         .conn_more = 1073741824,
                         .returns = HABIT_RETURN_4K,
                         .ping_ms = 30000,
                         .pings_while_idle = true,
                         .pings_with_reset = true,
                         .is_get = true,
                         .fields = client_go_fields},
};

const struct habit *habit_of(enum habit_who who)
{
    return &habits[who];
}

static const char *request_value(const struct habit_request *request, const char *name)
{
    if (strcmp(name, ":path") == 0)
        return request->path;
    if (strcmp(name, ":scheme") == 0)
        return request->scheme;
    if (strcmp(name, "grpc-timeout") == 0)
        return request->timeout;
    return request->token;
}

size_t habit_head(const struct habit *habit, const struct habit_request *request, nghttp2_nv out[HABIT_FIELDS])
{
    size_t n = 0;
    for (const struct habit_field *field = habit->fields; field->name != NULL; field++) {
        const char *value = field->value != NULL ? field->value : request_value(request, field->name);
        if (value == NULL)
            continue;
        verdict_must(n < HABIT_FIELDS, "fields");
        out[n++] = (nghttp2_nv){(uint8_t *)(uintptr_t)field->name, (uint8_t *)(uintptr_t)value, strlen(field->name),
                                strlen(value), 0};
    }
    return n;
}

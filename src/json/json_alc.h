/* src/json/json_alc.h: yyjson's allocator, using our own malloc so that tests can refuse it. Thread: any. */
#ifndef BELFRY_JSON_JSON_ALC_H
#define BELFRY_JSON_JSON_ALC_H

#include <yyjson.h>

extern const yyjson_alc belfry_json_alc;

#endif

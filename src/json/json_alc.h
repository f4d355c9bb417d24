/* src/json/json_alc.h: yyjson's memory, by our own malloc, so that a test can refuse it. Thread: any. */
#ifndef BELFRY_JSON_JSON_ALC_H
#define BELFRY_JSON_JSON_ALC_H

#include <yyjson.h>

extern const yyjson_alc belfry_json_alc;

#endif

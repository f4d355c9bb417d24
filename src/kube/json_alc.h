/* src/kube/json_alc.h: yyjson's memory, by our own malloc, so that a test can refuse it. Thread: any. */
#ifndef BELFRY_KUBE_JSON_ALC_H
#define BELFRY_KUBE_JSON_ALC_H

#include <yyjson.h>

extern const yyjson_alc belfry_kube_json_alc;

#endif

/* src/net/http_field.h: one field of a request or response; the name is in lower case unless said otherwise. */
#ifndef BELFRY_NET_HTTP_FIELD_H
#define BELFRY_NET_HTTP_FIELD_H

#include "base/bytes.h"

struct belfry_http_field {
    struct belfry_bytes name, value;
};

#endif

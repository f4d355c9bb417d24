/* src/json/manifest_fault.c */
#include "json/manifest_fault.h"

#include <stdarg.h>
#include <stdio.h>

enum belfry_err belfry_kube_fault_say(struct belfry_kube_fault *fault, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(fault->text, sizeof(fault->text), format, args);
    va_end(args);
    for (char *at = fault->text; *at != '\0'; at++) { /* it quotes a file and is shown on terminals and in logs */
        if (*at < ' ' || *at > '~')
            *at = '?';
    }
    return BELFRY_ERR_INVALID;
}

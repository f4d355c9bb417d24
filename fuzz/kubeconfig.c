/* fuzz/kubeconfig.c: any bytes as one kubeconfig, or, where there is a zero byte in them, as two.
 *
 * What is read names a server and has a key for each certificate; what is not is told in a sentence; without the user
 * nothing fails that did not fail before.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/check.h"
#include "kapi/kubeconfig.h"
#include "kapi/server_url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_config(const struct belfry_kubeconfig *config)
{
    struct belfry_endpoint endpoint;
    char *base = NULL, why[BELFRY_KUBECONFIG_WHY] = "";
    check(config->server != NULL && config->server[0] != '\0');
    check((config->cert_file != NULL || config->cert_pem != NULL) ==
          (config->key_file != NULL || config->key_pem != NULL));
    check(!config->skip_verify || (config->cacert_file == NULL && config->cacert_pem == NULL));
    if (belfry_server_url_parse(config->server, &endpoint, &base, why, sizeof(why)) == BELFRY_OK)
        check(base != NULL && (base[0] == '\0' || base[0] == '/') && endpoint.port != 0);
    else
        check(base == NULL && why[0] != '\0');
    free(base);
}

static enum belfry_err read_context(const struct belfry_kubeconfig_file *files, size_t n, const char *context,
                                    enum belfry_kubeconfig_parts parts)
{
    struct belfry_kubeconfig config = {0};
    char why[BELFRY_KUBECONFIG_WHY] = "";
    enum belfry_err err = belfry_kubeconfig_read(files, n, context, parts, &config, why);
    if (err == BELFRY_OK) {
        check_config(&config);
    } else {
        check(config.server == NULL && config.token == NULL);
        check(why[0] != '\0' && memchr(why, '\0', sizeof(why)) != NULL);
        for (const char *at = why; *at != '\0'; at++)
            check(*at >= ' ' && *at <= '~');
    }
    belfry_kubeconfig_fini(&config);
    return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *zero = size == 0 ? NULL : memchr(data, '\0', size);
    size_t len = zero == NULL ? size : (size_t)(zero - data);
    struct belfry_kubeconfig_file files[2] = {{"/one/config", belfry_bytes_of(data, len)}};
    if (zero != NULL)
        files[1] = (struct belfry_kubeconfig_file){"/two/config", belfry_bytes_of(zero + 1, size - len - 1)};
    size_t n = zero == NULL ? 1 : 2;
    enum belfry_err whole = read_context(files, n, NULL, BELFRY_KUBECONFIG_WHOLE);
    enum belfry_err no_user = read_context(files, n, NULL, BELFRY_KUBECONFIG_NO_USER);
    check(whole != BELFRY_OK || no_user == BELFRY_OK);
    belfry_ignore(read_context(files, n, "x", BELFRY_KUBECONFIG_WHOLE)); /* checked there; it need not be in them */
    return 0;
}

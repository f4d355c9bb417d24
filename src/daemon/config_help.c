/* src/daemon/config_help.c: --help, made from the table. */
#include <string.h>

#include "daemon/config_private.h"

#define LABEL_WIDTH 36 /* a longer label gets its help on the next line */

static void write_row(FILE *out, const struct config_row *row)
{
    char label[80];
    snprintf(label, sizeof(label), "  --%s%s%s", row->name, row->value_name != NULL ? " " : "",
             row->value_name != NULL ? row->value_name : "");
    fprintf(out, "%-*s%s", LABEL_WIDTH - 1, label, strlen(label) < LABEL_WIDTH ? " " : "\n");
    fprintf(out, "%*s%s", strlen(label) < LABEL_WIDTH ? 0 : LABEL_WIDTH, "", row->help);
    const char *fallback = row->described != NULL ? row->described : row->fallback;
    if (fallback != NULL)
        fprintf(out, " [%s]", fallback);
    fputc('\n', out);
}

static void write_listeners(FILE *out)
{
    char served[64];
    config_listen_dialects(CONFIG_DIALECTS, "+", served, sizeof(served));
    fprintf(out,
            "\nOptions of a listener, each after a comma:\n"
            "  serve=DIALECT+...                 what is spoken there [all: %s]\n"
            "  read-only                         only methods known to read are relayed to upstream\n"
            "  cert=FILE,key=FILE                for https and unixs: certificate and private key (PEM)\n"
            "  client-ca=FILE                    clients must show a certificate of these authorities\n",
            served);
}

static void write_resources(FILE *out)
{
    fputs("\nOptions of --resources; FILE may be a pattern, or crds-under=PREFIX: definitions in etcd:\n"
          "  prefix=PREFIX                     the objects' keys [/registry/{group}/{plural}/]\n"
          "  wrap=FIELD                        values are no objects yet: they become this field of one\n"
          "  key=TEMPLATE                      then their keys behind the prefix [{namespace}/{name}]\n",
          out);
}

void config_help(FILE *out)
{
    fputs("belfryd: follows an etcd cluster with one watch and serves any number of watchers,\n"
          "over etcd's own API.\n"
          "\nUsage: belfryd [flags]\n"
          "\nWithout any flag it follows the etcd of this machine and serves on loopback.\n"
          "[Defaults are in brackets.]\n",
          out);
    for (enum config_key key = 0; key < N_CONFIG_ROWS; key++) {
        if (config_rows[key].group != NULL)
            fprintf(out, "\n%s:\n", config_rows[key].group);
        write_row(out, &config_rows[key]);
    }
    write_listeners(out);
    write_resources(out);
    fputs("\nSizes: 512KiB, 256MiB, 4GiB. Times: 500ms, 5s, 10m, 1h30m.\n"
          "\nExamples:\n"
          "  belfryd\n"
          "  belfryd --upstream https://etcd-1:2379,https://etcd-2:2379 --upstream-cacert ca.crt\n"
          "  belfryd --listen https://0.0.0.0:23790,cert=tls.crt,key=tls.key,client-ca=ca.crt\n"
          "  belfryd --config /etc/belfry/belfryd.yaml --check-config\n"
          "\nEnvironment: BELFRYD_LOG_BYTES stands for --log-bytes, and so on for every flag\n"
          "(upper case, - as _); several listeners or resources are separated by blanks. A flag wins over\n"
          "the environment, that over the file, that over the default.\n"
          "\nExit code: 0 stopped as asked, 1 failed, 2 wrong usage or configuration.\n"
          "\nSee belfryd(8) and belfryd.yaml(5).\n",
          out);
}

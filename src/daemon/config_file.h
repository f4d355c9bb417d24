/* src/daemon/config_file.h
 *
 * config_file: a configuration file, in YAML: a map of keys, each a scalar or a list of scalars; items of listen and
 * resources may be maps. At most CONFIG_FILE_MAX bytes. A mistake is told with its line.
 *
 * Thread: owner.
 */
#ifndef BELFRY_DAEMON_CONFIG_FILE_H
#define BELFRY_DAEMON_CONFIG_FILE_H

#include "daemon/config_draft.h"

#define CONFIG_FILE_MAX (1024 * 1024) /* bytes: a thousand times what anybody writes */

/* Lays the file over the draft. Errors: as config_draft_set(). */
BELFRY_NODISCARD enum belfry_err config_file_read(struct config_draft *draft, FILE *file);

#endif

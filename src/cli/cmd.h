/* src/cli/cmd.h: the commands. Each reads its flags, does its work, tells what went wrong and returns the exit code.
 * Thread: owner. */
#ifndef BELFRY_CLI_CMD_H
#define BELFRY_CLI_CMD_H

#include "cli/flags.h"
#include "cli/out/report.h"

enum exit_code cmd_get(const struct flags *flags);
enum exit_code cmd_put(const struct flags *flags);
enum exit_code cmd_del(const struct flags *flags);
enum exit_code cmd_txn(const struct flags *flags);
enum exit_code cmd_lease(const struct flags *flags);
enum exit_code cmd_member(const struct flags *flags);
enum exit_code cmd_watch(const struct flags *flags);
enum exit_code cmd_follow(const struct flags *flags);
enum exit_code cmd_status(const struct flags *flags);
enum exit_code cmd_top(const struct flags *flags);
enum exit_code cmd_tree(const struct flags *flags);
enum exit_code cmd_health(const struct flags *flags);
enum exit_code cmd_doctor(const struct flags *flags);
enum exit_code cmd_verify(const struct flags *flags);
enum exit_code cmd_kube(const struct flags *flags);
enum exit_code cmd_completion(const struct flags *flags);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The exit statuses of all commands but `anynet run`, which ends with the status of its command. */
#ifndef SHARED_STATUS_H
#define SHARED_STATUS_H

enum {
	STATUS_OK,
	STATUS_WARNING,
	STATUS_ERROR,      /* also: the command has failed, or has not found what was asked for */
	STATUS_UNREADABLE, /* wrong command line, or unreadable input */
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of this program and of its plugin. Not thread-safe. */
#ifndef TOOLS_SELF_H
#define TOOLS_SELF_H

/* "" = unknown. */
const char *self_path(void);

/* Path of the plugin of this build or installation, or else its name, for the library search path. */
const char *self_plugin(void);

#endif

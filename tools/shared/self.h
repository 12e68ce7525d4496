/* SPDX-License-Identifier: Apache-2.0 */
/* Where this program is, and the plugin that belongs to it. For one thread. */
#ifndef TOOLS_SELF_H
#define TOOLS_SELF_H

/* "" = nobody knows. */
const char *self_path(void);

/* The plugin of this build or installation; else its name, for the loader. */
const char *self_plugin(void);

#endif

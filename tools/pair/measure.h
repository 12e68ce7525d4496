/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of measurements between two hosts through the plugin. */
#ifndef PAIR_MEASURE_H
#define PAIR_MEASURE_H

struct measure {
	int dev;         /* device index of the net, on both hosts */
	int streams;     /* simultaneous connections of the plugin; 1 … TRAFFIC_CHANNELS_MAX */
	int ms;          /* limit of each bandwidth run; 0 = no bandwidth runs */
	long long bytes; /* limit of each bandwidth run */
};

#endif

# SPDX-License-Identifier: Apache-2.0
# All-reduce of real NCCL, net beside net: gnuplot -e "data='FILE'; image='FILE.svg'; ranks=2" plot.gp
# DATA is of medians.awk.
nets = int(system("grep -c '^\"' " . data))

set terminal svg size 1200,500 dynamic background 'white'
set output image
set datafile missing NaN # lines go on over rows that are filtered out
set logscale x 2
set format x '%.0b%B'
set xlabel 'size (bytes)'
set grid
set key top left
set multiplot layout 1,2 title sprintf('all-reduce of %d ranks on one GPU', ranks)
set logscale y
set ylabel 'time (us)'
plot for [n = 0:nets-1] data index n using (strcol(4) eq 'time_us' ? $1 : NaN):5 \
	with linespoints title columnheader(1)
unset logscale y
set yrange [0:*]
set ylabel 'bus bandwidth (GB/s)'
plot for [n = 0:nets-1] data index n using (strcol(4) eq 'busbw_GB/s' ? $1 : NaN):5 \
	with linespoints title columnheader(1)
unset multiplot

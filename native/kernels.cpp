// Compiled once for every instruction set: EBO_ISA is its name, EBO_LANES the
// number of doubles in its vectors.
#include "kernels.hpp"

#include "collisions.hpp"
#include "likelihood.hpp"
#include "limits.hpp"
#include "separations.hpp"
#include "triangle.hpp"

#define EBO_PASTE(a, b) a##b
#define EBO_TABLE(isa) EBO_PASTE(kernels_, isa)
#define EBO_STRING_OF(x) #x
#define EBO_STRING(x) EBO_STRING_OF(x)

namespace ebo {

using namespace EBO_ISA;

const Kernels EBO_TABLE(EBO_ISA) = {
    EBO_STRING(EBO_ISA),
    {W, Interleaved<Bits, vec>::PH},
    {1, W},
    {{Interleaved<Bits, vec>::run, Single<Bits>::run},
     {Interleaved<Limit, vec>::run, Single<Limit>::run}},
    {Interleaved<Bits, half_fvec>::run, Interleaved<Bits, fvec>::run},
    {add_weight<Bits>, add_weight<Limit>},
    {remove<Bits>, remove<Limit>},
    {settle<Bits>, settle<Limit>},
    cells,
    separations_by_cells,
    separations_by_tiles,
    separations_by_limit,
    add_similarity,
    add_square_distance,
    matern,
    whiten,
    count_collisions,
};

}  // namespace ebo

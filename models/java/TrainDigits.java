import ai.onnxruntime.OnnxTensor;
import com.fasterxml.jackson.databind.*;
import java.nio.*;
import java.nio.file.*;
import java.util.*;

/** Train on the digits. Usage: TrainDigits FOLDER [STEPS]; FOLDER is what models/web/write_files.py wrote. Prints the losses as JSON. */
class TrainDigits {
    public static void main(String[] arguments) throws Exception {
        var folder = Path.of(arguments[0]);
        int steps = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 50;
        var entries = new ObjectMapper().readTree(folder.resolve("data.json").toFile());
        var content = Files.readAllBytes(folder.resolve("data.bin"));
        var images = bytes(entries.get("train_images"), content).asFloatBuffer();
        var labels = bytes(entries.get("train_labels"), content).asLongBuffer();
        var order = bytes(entries.get("order"), content).asIntBuffer();
        int batch = entries.get("order").get("shape").get(1).asInt();

        var step = new TrainingStep(folder.resolve("step.json"));
        var loss = step.manifest.get("fetches").get(0).get("name").asText();
        var losses = new ArrayList<Float>();
        for (int i = 0; i < steps; i++) {
            var chosenImages = FloatBuffer.allocate(batch * 64);
            var chosenLabels = LongBuffer.allocate(batch);
            for (int row = 0; row < batch; row++) {
                int index = order.get(i * batch + row);
                for (int pixel = 0; pixel < 64; pixel++) chosenImages.put(images.get(index * 64 + pixel));
                chosenLabels.put(labels.get(index));
            }
            try (var image = OnnxTensor.createTensor(step.environment, chosenImages.flip(), new long[] {batch, 1, 8, 8});
                    var label = OnnxTensor.createTensor(step.environment, chosenLabels.flip(), new long[] {batch})) {
                var fetches = step.run(Map.of("image", image, "label", label));
                losses.add(fetches.get(loss).getFloatBuffer().get(0));
                for (var fetch : fetches.values()) fetch.close();
            }
        }
        System.out.println(new ObjectMapper().writeValueAsString(losses));
    }

    static ByteBuffer bytes(JsonNode entry, byte[] content) {
        return ByteBuffer.wrap(content, entry.get("offset").asInt(), entry.get("bytes").asInt()).slice().order(ByteOrder.LITTLE_ENDIAN);
    }
}

import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import org.elasticsearch.common.logging.LogConfigurator;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.env.Environment;
import org.elasticsearch.node.Node;
import org.elasticsearch.plugins.PluginsLoader;

/** An Elasticsearch node in this process: TestNode HOME name=value... It ends with SIGTERM, or when its standard input does. */
public class TestNode {
  public static void main(String[] arguments) throws Exception {
    Path home = Path.of(arguments[0]);
    var settings = Settings.builder().put("path.home", home);
    for (String argument : arguments) {
      int equals = argument.indexOf('=');
      if (equals > 0) settings.put(argument.substring(0, equals), argument.substring(equals + 1));
    }
    var environment = new Environment(settings.build(), home.resolve("config"));
    LogConfigurator.setNodeName("test");
    LogConfigurator.configure(environment, true);

    var modules = PluginsLoader.loadModulesBundles(environment.modulesDir());
    var node = new Node(environment, PluginsLoader.createPluginsLoader(modules, Set.of(), Map.of(), false));
    Runtime.getRuntime().addShutdownHook(new Thread(() -> close(node)));
    node.start();

    // Whoever started this holds the other end; when they are gone, however they went, so are we.
    while (System.in.read() >= 0) {}
    System.exit(0);
  }

  private static void close(Node node) {
    try {
      node.prepareForClose();
      node.close();
    } catch (Exception failure) {
      failure.printStackTrace();
    }
  }
}
